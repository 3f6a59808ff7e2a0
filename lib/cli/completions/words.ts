/**
 * What there is to complete: commands, flags and their values, from the tables that the parser
 * reads.
 *
 * @module
 */
import { SHELLS } from "../../config/flags/arguments.ts";
import { COMMAND_FACTS } from "../../config/flags/commands.ts";
import { type CommandName, COMMANDS } from "../../config/flags/flag.ts";
import { FLAG_GROUPS, isOf } from "../../config/flags/table.ts";
import { UNUSED_TITLE } from "../../config/settings/table.ts";

/** What may follow a flag. */
export type Operand = "nothing" | "text" | "file";

/** One flag of some commands. */
export interface CompletedFlag {
  /** Without the dashes. */
  readonly name: string;
  /** `""`: no short form. */
  readonly letter: string;
  readonly help: string;
  readonly operand: Operand;
  /** What stands for its value, such as `FILE`. */
  readonly value: string;
  readonly choices: readonly string[];
  /** The commands that take it. */
  readonly commands: readonly CommandName[];
}

/** Every flag that is worth completing: none that is hidden or without effect. */
export function completedFlags(): CompletedFlag[] {
  return FLAG_GROUPS.filter(({ title }) => title !== UNUSED_TITLE)
    .flatMap((group) => group.flags.map((flag) => ({ flag, group })))
    .filter(({ flag }) => !flag.hidden)
    .map(({ flag, group }) => {
      const { name, letter = "", help, kind, value = "", choices = [] } = flag;
      return {
        name,
        letter,
        help,
        value,
        choices,
        operand: kind === "boolean"
          ? "nothing" as const
          : value === "FILE" || value === "PATH"
          ? "file" as const
          : "text" as const,
        commands: COMMANDS.filter((command) =>
          isOf(flag, command) && COMMAND_FACTS[command].shows(group)
        ),
      };
    });
}

/** What may follow a command besides flags. */
export interface CompletedCommand {
  readonly name: CommandName;
  readonly summary: string;
  readonly words: readonly string[];
  readonly takesServices: boolean;
  readonly takesFiles: boolean;
}

/** Every command. */
export function completedCommands(): CompletedCommand[] {
  return COMMANDS.map((name) => ({
    name,
    summary: COMMAND_FACTS[name].summary,
    words: name === "completions" ? SHELLS : name === "explain" ? ["to"] : [],
    takesServices: name === "explain",
    takesFiles: name === "diff",
  }));
}

/** The flags that say where Services come from: the scripts hand them on. */
export const SOURCE_FLAG_NAMES: readonly string[] = [
  "config",
  "kubeconfig",
  "master",
  "manifests",
];

/** Text between single quotes, for all three shells but fish. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
