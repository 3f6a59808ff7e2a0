/**
 * `signpost completions`: prints a script for a shell, or the candidates for the end of a command line,
 * which the script requests at each Tab key.
 *
 * @module
 */
// Before @optique/core, which it is loaded with.
import { suggestionsFor } from "./suggestions.ts";
import { bash, fish, type ShellCompletion, zsh } from "@optique/core/completion";
import type { Command } from "../../config/flags/command.ts";
import type { Shell } from "../../config/flags/arguments.ts";
import type { Runtime } from "../../model/ports/runtime.ts";

const SHELLS: Readonly<Record<Shell, ShellCompletion>> = { bash, zsh, fish };

/** Returns the script of a shell. It calls signpost with the words of the line behind `--`. */
export function completionScript(shell: Shell): string {
  return `${SHELLS[shell].generateScript("signpost", ["completions", shell, "--"]).trim()}\n`;
}

/**
 * Prints the script of a shell, or the candidates for a line.
 *
 * @returns 0
 */
export async function completions(
  { shell, line }: Extract<Command, { readonly name: "completions" }>,
  { print }: Pick<Runtime, "print">,
): Promise<number> {
  await print(
    line === undefined
      ? completionScript(shell)
      : [...SHELLS[shell].encodeSuggestions(suggestionsFor(line))].join(""),
  );
  return 0;
}
