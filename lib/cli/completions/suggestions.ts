/**
 * Suggests the end of a command line: a command, a flag, its value, or a word of a command.
 *
 * @module
 */
// Before @optique/core, which it is loaded with.
import { flagGrammar } from "../grammar.ts";
import { object } from "@optique/core/constructs";
import { text } from "@optique/core/message";
import { multiple } from "@optique/core/modifiers";
import { type Suggestion, suggestSync } from "@optique/core/parser";
import { argument } from "@optique/core/primitives";
import { string, type ValueParser } from "@optique/core/valueparser";
import { SHELLS } from "../../config/flags/arguments.ts";
import { COMMAND_FACTS } from "../../config/flags/commands.ts";
import { type CommandName, COMMANDS } from "../../config/flags/flag.ts";

/**
 * Returns the candidates for the last word of a line.
 *
 * @param line the words after `signpost`, up to the cursor
 */
export function suggestionsFor(line: readonly string[]): readonly Suggestion[] {
  const [first, ...others] = line;
  const command = others.length === 0 ? undefined : COMMANDS.find((name) => name === first);
  const [word = "", ...rest] = command === undefined ? line : others;
  const parser = object({
    flags: flagGrammar(command ?? "run"),
    words: multiple(argument(suggesting(wordsAfter(command, line)))),
  });
  return suggestSync(parser, [word, ...rest]);
}

/** Returns the words besides flags that may follow a command. */
function wordsAfter(
  command: CommandName | undefined,
  line: readonly string[],
): readonly Suggestion[] {
  switch (command) {
    case undefined:
      if (line.length > 1) return line[0] === "help" && line.length === 2 ? described() : [];
      return [...described(), { ...literal("help"), description: [text("show help texts")] }];
    case "explain":
      return [literal("to")];
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
function suggesting(suggestions: readonly Suggestion[]): ValueParser<"sync", string> {
  return {
    ...string({ metavar: "WORD" }),
    *suggest(prefix) {
      // Of a flag.
      if (prefix.startsWith("-")) return;
      for (const each of suggestions) {
        if (each.kind === "file" || each.text.startsWith(prefix)) yield each;
      }
    },
  };
}
