/**
 * `signpost completions`: prints a script for a shell, or what may stand at the end of a command line,
 * which is what the script asks for at each Tab key.
 *
 * @module
 */
// Before @optique/core, which it is loaded with.
import { suggestionsFor } from "./suggestions.ts";
import { bash, fish, type ShellCompletion, zsh } from "@optique/core/completion";
import type { Command } from "../../config/flags/command.ts";
import type { Shell } from "../../config/flags/arguments.ts";
import { FatalError } from "../../model/values/errors.ts";
import type { QueryContext } from "../query.ts";
import { serviceNames } from "./services.ts";

const SHELLS: Readonly<Record<Shell, ShellCompletion>> = { bash, zsh, fish };

/** The script of a shell. It calls signpost with the words of the line behind `--`. */
export function completionScript(shell: Shell): string {
  return `${SHELLS[shell].generateScript("signpost", ["completions", shell, "--"]).trim()}\n`;
}

/**
 * Prints the script of a shell, or what its user may mean. Where the names of Services cannot be had, the
 * rest is offered.
 *
 * @returns 0
 */
export async function completions(
  { shell, line }: Extract<Command, { readonly name: "completions" }>,
  context: QueryContext,
): Promise<number> {
  const { runtime } = context;
  if (line === undefined) {
    await runtime.print(completionScript(shell));
    return 0;
  }
  const services = () =>
    serviceNames(line, { ...context, shell }).catch((error: unknown) => {
      if (!(error instanceof FatalError)) throw error;
      runtime.complain(`signpost: no names of Services: ${error.message}`);
      return [];
    });
  const found = await suggestionsFor(line, services);
  await runtime.print([...SHELLS[shell].encodeSuggestions(found)].join(""));
  return 0;
}
