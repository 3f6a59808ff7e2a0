/**
 * The help text.
 *
 * @module
 */
import { formatDocPage, getDocPageSync } from "@optique/core";
import { COMMAND_FACTS, type CommandFacts } from "./flags/commands.ts";
import type { CommandName } from "./flags/flag.ts";
import { UNUSED_FLAGS } from "./flags/unused.ts";
import { commandGrammar } from "./grammar.ts";

/** The help text of a command, ending with a line feed. */
export function helpText(command: CommandName): string {
  const facts = COMMAND_FACTS[command];
  const page = getDocPageSync(commandGrammar(command), []);
  const sections = (page?.sections ?? [])
    .filter(({ title }) => title !== UNUSED_FLAGS.title)
    .map(({ title, entries }) => ({ title: title ?? "", entries }));
  const flags = formatDocPage("signpost", { sections }, {
    colors: false,
    showUsage: false,
    termWidth: 46,
  });
  return [
    facts.introduction,
    flags.trim(),
    ...unusedFlags(facts),
    `Examples:\n${facts.examples.map((line) => `  ${line}`).join("\n")}`,
    `Exit codes:\n${facts.exitCodes.map(([code, text]) => `  ${code}  ${text}`).join("\n")}`,
  ].join("\n\n") + "\n";
}

function unusedFlags(facts: CommandFacts): string[] {
  if (!facts.shows(UNUSED_FLAGS)) return [];
  return [
    `${UNUSED_FLAGS.title}:\n${UNUSED_FLAGS.flags.map(({ name }) => `  --${name}`).join("\n")}`,
  ];
}
