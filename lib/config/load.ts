/** Loads the command line and its configuration file into one checked configuration. */
import { append } from "../model/values/lists.ts";
import { completeSettings, type Configuration } from "./configuration.ts";
import { checkCombinations, checkFeatureGates, isError, isReported, warningsOf } from "./checks.ts";
import { type Command, readCommand } from "./command.ts";
import { type FileResult, readConfigurationFile } from "./file/file.ts";
import { readCommandLine, unexpectedWord } from "./command_line.ts";
import { type CommandName, COMMANDS } from "./commands.ts";
import { errorText, plain } from "../model/values/text.ts";
import { errorLine } from "./setting.ts";
import type { GivenSettings } from "./settings.ts";

/** The source of the configuration of a command without flags that name a cluster. */
export type ConfiguredBy = "daemon" | "file";

export type Invocation =
  | {
    readonly type: "run";
    readonly command: Command;
    readonly configuration: Configuration;
    /** The settings of file and flags, without defaults. */
    readonly settings: GivenSettings;
    /** All flags of the command line, as `--name`. */
    readonly given: readonly string[];
    /** Set if the configuration is the running daemon's or that of the node's file, not of flags. */
    readonly configuredBy?: ConfiguredBy;
    /** One line each, for stderr or the log. */
    readonly warnings: readonly string[];
  }
  /** The help text of that command, or the overview of all, is asked for; exit code 0. */
  | { readonly type: "help"; readonly command: CommandName | undefined }
  | { readonly type: "version" }
  /** Errors, one line each; exit code 2. */
  | {
    readonly type: "errors";
    readonly errors: readonly string[];
    readonly warnings: readonly string[];
    /** The words after `signpost` that print the help, if the command line has an error. */
    readonly help?: string;
  };

export type Run = Extract<Invocation, { readonly type: "run" }>;

interface LoadOptions {
  /** Reads a text file. @throws {Error} if it cannot be read; its message is shown */
  readFile(path: string): Promise<string>;
  /** A second command line, such as the daemon's. Its settings apply, unless the first command line sets them. */
  readonly base?: readonly string[];
}

/** Reads command line and configuration file, and reports all their errors together. */
export async function loadConfiguration(
  argv: readonly string[],
  options: LoadOptions,
): Promise<Invocation> {
  if (argv[0] === "help") return helpFor(argv.slice(1));
  const flags = readCommandLine(argv);
  if (flags.information === "help") {
    return { type: "help", command: argv[0] === flags.command ? flags.command : undefined };
  }
  if (flags.information === "version") return { type: "version" };

  const base = readCommandLine(options.base ?? []);
  const fileName = flags.values.configFile ?? base.values.configFile ?? "";
  const file = await loadFile(fileName, options);
  const settings: GivenSettings = {
    ...file.settings,
    ...base.values,
    ...flags.values,
    featureGates: {
      ...file.settings.featureGates,
      ...base.values.featureGates,
      ...flags.values.featureGates,
    },
  };
  const configuration = completeSettings(settings);
  const setBy = new Map([...base.setBy, ...flags.setBy]);
  const origin = { settings, file: file.settings, fileName, setBy };
  const { detectLocalMode } = configuration;
  const context = { mode: settings.mode ?? "", detectLocalMode };
  const problems = [...base.problems, ...flags.problems, ...file.problems];
  const faults = problems.filter((problem) => isError(problem, context));
  const ignored = problems.filter((each) => !isError(each, context) && isReported(each));
  const asked = readCommand(flags);
  const errors = [
    ...new Set(faults.map(({ line }) => line)),
    ...checkFeatureGates(origin),
    ...checkCombinations(configuration, origin),
    ...typeof asked === "string" ? [asked] : [],
  ];
  const warnings = ignored.map(({ line }) => line);
  if (errors.length > 0 || typeof asked === "string") {
    const isUsage = typeof asked === "string" ||
      faults.some((each) => flags.problems.includes(each));
    const help = argv[0] === flags.command ? `help ${flags.command}` : "help";
    return { type: "errors", errors, warnings, ...isUsage && { help } };
  }
  const given = [...new Set(flags.setBy.values())];
  append(warnings, warningsOf({ origin, given }));
  return { type: "run", command: asked, configuration, settings, given, warnings };
}

function helpFor([word, ...others]: readonly string[]): Invocation {
  const command = COMMANDS.find((name) => name === word);
  const wrong = command === undefined ? word : others[0];
  return wrong === undefined || wrong === "--help" || wrong === "-h"
    ? { type: "help", command }
    : { type: "errors", errors: [`help: ${unexpectedWord(wrong)}`], warnings: [], help: "help" };
}

async function loadFile(name: string, { readFile }: LoadOptions): Promise<FileResult> {
  if (name === "") return { settings: {}, problems: [] };
  let text: string;
  try {
    text = await readFile(name);
  } catch (error) {
    const line = `${plain(name)}: cannot be read: ${errorText(error)}`;
    return { settings: {}, problems: [errorLine(line)] };
  }
  return readConfigurationFile(text, name);
}
