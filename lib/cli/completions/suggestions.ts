/**
 * What may stand at the end of a command line: a command, a flag, its value, or a command's words.
 *
 * @module
 */
// Before @optique/core, which it is loaded with.
import { flagGrammar } from "../grammar.ts";
import { object } from "@optique/core/constructs";
import { text } from "@optique/core/message";
import { multiple } from "@optique/core/modifiers";
import { suggestAsync, type Suggestion } from "@optique/core/parser";
import { argument } from "@optique/core/primitives";
import type { ValueParser } from "@optique/core/valueparser";
import { SHELLS } from "../../config/flags/arguments.ts";
import { COMMAND_FACTS } from "../../config/flags/commands.ts";
import { type CommandName, COMMANDS } from "../../config/flags/flag.ts";

/** Reads the names of all Services. */
export type ServiceNames = () => Promise<readonly string[]>;

/**
 * What the last word of a line may become.
 *
 * @param line the words after `signpost`, up to the cursor
 * @param services is called where names of Services are wanted
 */
export async function suggestionsFor(
  line: readonly string[],
  services: ServiceNames,
): Promise<readonly Suggestion[]> {
  const [first, ...others] = line;
  const command = others.length === 0 ? undefined : COMMANDS.find((name) => name === first);
  const [word = "", ...rest] = command === undefined ? line : others;
  const parser = object({
    flags: flagGrammar(command ?? "run"),
    words: multiple(argument(suggesting(() => wordsAfter(command, line, services)))),
  });
  return await suggestAsync(parser, [word, ...rest]);
}

/** The words besides flags that may follow a command. */
async function wordsAfter(
  command: CommandName | undefined,
  line: readonly string[],
  services: ServiceNames,
): Promise<Suggestion[]> {
  switch (command) {
    case undefined:
      if (line.length > 1) return line[0] === "help" && line.length === 2 ? described() : [];
      return [...described(), { ...literal("help"), description: [text("show help texts")] }];
    case "explain":
      return [literal("to"), ...(await services()).map(literal)];
    case "diff":
      return [{ kind: "file", type: "any", pattern: line.at(-1) ?? "" }];
    case "completions":
      return SHELLS.map(literal);
    default:
      return [];
  }
}

function described(): Suggestion[] {
  return COMMANDS.map((name) => ({
    ...literal(name),
    description: [text(COMMAND_FACTS[name].summary)],
  }));
}

function literal(text: string): Suggestion & { readonly kind: "literal" } {
  return { kind: "literal", text };
}

/** Takes any word. */
function suggesting(suggestions: () => Promise<Suggestion[]>): ValueParser<"async", string> {
  return {
    mode: "async",
    metavar: "WORD",
    placeholder: "",
    parse: (value) => Promise.resolve({ success: true, value }),
    format: (value) => value,
    async *suggest(prefix) {
      // Of a flag.
      if (prefix.startsWith("-")) return;
      for (const each of await suggestions()) {
        if (each.kind === "file" || each.text.startsWith(prefix)) yield each;
      }
    },
  };
}
