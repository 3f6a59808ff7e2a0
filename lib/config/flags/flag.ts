/**
 * What a flag is.
 *
 * @module
 */

/** The commands that may be the first word. A new one is added here, in `commands.ts` and `../command.ts`. */
export const COMMANDS = [
  "run",
  "check",
  "cleanup",
  "explain",
  "verify",
  "status",
  "top",
  "diff",
  "completions",
  "version",
  "licenses",
] as const;

/** The name of a command. */
export type CommandName = typeof COMMANDS[number];

/**
 * How the text after a flag is read. `boolean` may stand without a value; `list` is parted by
 * commas, `words` is not, both may be repeated; `map` is `Name=true,Name=false`.
 */
export type FlagKind = "boolean" | "text" | "integer" | "number" | "list" | "words" | "map";

/** What stands for a value in the help text. */
export type ValueName =
  | "BIT"
  | "CIDRS"
  | "DURATION"
  | "FILE"
  | "FORMAT"
  | "IP"
  | "IP:PORT"
  | "LEVEL"
  | "MODE"
  | "N"
  | "NAME"
  | "NAME=BOOL"
  | "PATH"
  | "PORT"
  | "PREFIX"
  | "SOURCE"
  | "URL"
  | "VALUE";

/** One flag. */
export interface Flag {
  /** Without the dashes. */
  readonly name: string;
  /** The letter of its short form. */
  readonly letter?: string;
  readonly kind: FlagKind;
  /** `undefined`: a boolean flag's. */
  readonly value?: ValueName;
  /** The settings that it sets, as paths in the settings of flags (`../settings/table.ts`); empty: none. */
  readonly sets: readonly string[];
  /** One line for the help text. */
  readonly help: string;
  /** The values that it takes, for shell completion. */
  readonly choices?: readonly string[];
  /** The only commands that take it. */
  readonly only?: readonly CommandName[];
}

/** Flags under one title of the help text. */
export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly Flag[];
}
