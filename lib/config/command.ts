/**
 * From the words and options of a command line to the command that they ask for.
 *
 * @module
 */
import {
  type Argument,
  type CompletionsRequest,
  type ExplainTarget,
  readCompletions,
  readExplainTarget,
} from "./arguments.ts";
import type { CommandLineResult } from "./command_line.ts";
import { COMMAND_ROWS, type CommandName, type OptionsOf } from "./commands.ts";

/** The form of a report. */
export type OutputFormat = OptionsOf<"check">["output"];

/** The sender of a packet. */
export type Sender = Exclude<OptionsOf<"explain">["from"], "">;

/** The meaning of the words after a command. */
interface WordsOf {
  readonly explain: { readonly target: ExplainTarget };
  /** The objects that might be applied: files, folders or `-`. */
  readonly diff: { readonly manifests: readonly string[] };
  readonly completions: CompletionsRequest;
}

/** A command with its options and words. */
export type CommandOf<N extends CommandName> =
  & { readonly name: N }
  & OptionsOf<N>
  & (N extends keyof WordsOf ? WordsOf[N] : unknown);

/** Any command. */
export type Command = { readonly [N in CommandName]: CommandOf<N> }[CommandName];

/** The command, or one line for each error of its words. */
export type CommandResult =
  | { readonly type: "command"; readonly command: Command }
  | { readonly type: "errors"; readonly errors: readonly string[] };

/** Works out what a command line asks for. */
export function readCommand(line: CommandLineResult): CommandResult {
  const { command: name, words, settings, options } = line;
  const withDefaults = Object.entries(COMMAND_ROWS[name].flags).map(([option, row]) =>
    [option, isUnset(options[option]) ? row.default : options[option]] as const
  );
  // Each value was read by the reader of its row.
  const command = { name, ...Object.fromEntries(withDefaults) } as Command;
  switch (command.name) {
    case "run":
      return options["output"] && !command.once
        ? errors("--output: only with --once")
        : { type: "command", command };
    case "explain":
      return andThen(readExplainTarget(words), command, (target) => {
        const wrong = checkExplain(target, command);
        return wrong.length > 0
          ? errors(...wrong)
          : { type: "command", command: { ...command, target } };
      });
    case "diff": {
      const manifests = [...settings["signpost.manifests"] ?? [], ...words];
      return manifests.length === 0
        ? errors("diff: needs the objects that might be applied: --manifests FILE")
        : { type: "command", command: { ...command, manifests } };
    }
    case "completions":
      return andThen(readCompletions(words), command, (request) => ({
        type: "command",
        command: { ...command, ...request },
      }));
    default:
      return { type: "command", command };
  }
}

function isUnset(value: unknown): boolean {
  return value === undefined || value === "";
}

function checkExplain(target: ExplainTarget, { from, trace }: OptionsOf<"explain">): string[] {
  if (target.type === "service") {
    return [
      ...trace ? ["--trace: is only for packets"] : [],
      ...from ? ["--from: is only for packets"] : [],
    ];
  }
  return from || target.source !== undefined
    ? []
    : ["explain: needs the packet's source: an address before to, or --from"];
}

function andThen<T>(
  argument: Argument<T>,
  { name }: Command,
  then: (value: T) => CommandResult,
): CommandResult {
  return argument.type === "value" ? then(argument.value) : errors(`${name}: ${argument.message}`);
}

function errors(...errors: readonly string[]): CommandResult {
  return { type: "errors", errors };
}
