/**
 * From the command line and the file that it names to one checked configuration.
 *
 * Nothing here prints, exits or touches the machine.
 *
 * @module
 */
import { append } from "../model/values/lists.ts";
import { messageOf } from "../model/values/errors.ts";
import type { Configuration } from "../model/configuration.ts";
import { checkCombinations } from "./checks/combinations.ts";
import { type Command, readCommand } from "./flags/command.ts";
import { completeSettings, mergeSettings } from "./complete.ts";
import { type FileResult, NO_FILE, readConfigurationFile } from "./file/file.ts";
import { checkFeatureGates } from "./checks/feature_gates.ts";
import { readFlags } from "./flags/flags.ts";
import { type CommandName, COMMANDS } from "./flags/flag.ts";
import { unexpectedWord } from "./flags/scan.ts";
import { isJudged } from "./file/judged.ts";
import { plain } from "../model/values/text.ts";
import type { GivenSettings } from "./settings/table.ts";
import { warningsOf } from "./checks/warnings.ts";

/** Where a command without a cluster has its configuration from. */
export type ConfiguredBy = "daemon" | "file";

/** What a command line comes to. */
export type Invocation =
  | {
    readonly type: "run";
    readonly command: Command;
    readonly configuration: Configuration;
    /** What file and flags say, without defaults. */
    readonly settings: GivenSettings;
    /** All flags of the command line, as `--name`. */
    readonly given: readonly string[];
    /** Whose configuration it is, if flags name no cluster: the running daemon's, or that of the node's file. */
    readonly configuredBy?: ConfiguredBy;
    /** One line each, for stderr or the log. */
    readonly warnings: readonly string[];
  }
  /** The help text of that command, or the overview of all, is asked for; exit code 0. */
  | { readonly type: "help"; readonly command: CommandName | undefined }
  /** To be printed on stdout; exit code 0. */
  | { readonly type: "version"; readonly text: string }
  /** One line each; exit code 2. */
  | {
    readonly type: "errors";
    readonly errors: readonly string[];
    readonly warnings: readonly string[];
  };

/** What loading needs from outside. */
export interface LoadOptions {
  /**
   * Reads a file as text.
   *
   * @throws anything where it cannot be read; the message is shown
   */
  readFile(path: string): Promise<string>;
  /** What `--version` prints. */
  readonly version: string;
  /**
   * Another command line, for example that of the running daemon: its settings hold where this one
   * says nothing, its command does not count.
   */
  readonly base?: readonly string[];
}

/**
 * Reads command line and configuration file. All that is wrong in either is reported at once.
 *
 * @param argv the words after the program's name
 * @param options how files are read
 */
export async function loadConfiguration(
  argv: readonly string[],
  options: LoadOptions,
): Promise<Invocation> {
  if (argv[0] === "help") return helpFor(argv.slice(1));
  const flags = readFlags(argv);
  if (flags.information === "help") {
    return { type: "help", command: argv[0] === flags.command ? flags.command : undefined };
  }
  if (flags.information === "version") return { type: "version", text: `${options.version}\n` };

  const base = readFlags(options.base ?? []);
  const fileName = flags.settings["command.config"] ?? base.settings["command.config"] ?? "";
  const file = await loadFile(fileName, options);
  const settings = mergeSettings(
    mergeSettings(file.settings, withoutCommand(base.settings)),
    flags.settings,
  );
  const configuration = completeSettings(settings);
  const setBy = new Map([...base.setBy, ...flags.setBy]);
  const origin = { settings, file: file.settings, fileName, setBy };
  const asked = readCommand(flags);
  const problems = [...base.problems, ...flags.problems, ...file.problems];
  const { detectLocalMode } = configuration;
  const judged = problems.filter((problem) =>
    isJudged(problem, { mode: settings.mode ?? "", detectLocalMode })
  );
  const errors = [
    ...base.errors,
    ...flags.errors,
    ...new Set(judged.map(({ line }) => line)),
    ...file.errors,
    ...checkFeatureGates(origin),
    ...checkCombinations(configuration, origin),
    ...asked.type === "errors" ? asked.errors : [],
  ];
  const ignored = problems.filter(({ kind }) => kind === "unknown").map(({ line }) => line);
  const warnings = [...ignored, ...file.warnings];
  if (errors.length > 0 || asked.type === "errors") return { type: "errors", errors, warnings };
  append(warnings, warningsOf({ origin, given: flags.given }));
  const { command } = asked;
  return { type: "run", command, configuration, settings, given: flags.given, warnings };
}

/** Reads the words after `help`. */
function helpFor([word, ...others]: readonly string[]): Invocation {
  const command = COMMANDS.find((name) => name === word);
  const wrong = command === undefined ? word : others[0];
  return wrong === undefined || wrong === "--help" || wrong === "-h"
    ? { type: "help", command }
    : { type: "errors", errors: [`help: ${unexpectedWord(wrong)}`], warnings: [] };
}

/** The settings of a command line that say nothing of its command. */
function withoutCommand(settings: GivenSettings): GivenSettings {
  return Object.fromEntries(
    Object.entries(settings).filter(([path]) => !path.startsWith("command.")),
  );
}

async function loadFile(name: string, { readFile }: LoadOptions): Promise<FileResult> {
  if (name === "") return NO_FILE;
  let text: string;
  try {
    text = await readFile(name);
  } catch (error) {
    const reason = messageOf(error);
    return { ...NO_FILE, errors: [`${plain(name)}: cannot be read: ${plain(reason)}`] };
  }
  return readConfigurationFile(text, name);
}
