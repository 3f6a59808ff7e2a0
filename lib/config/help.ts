/**
 * The help text.
 *
 * @module
 */
import { formatDocPage, getDocPageSync } from "@optique/core";
import { COMMAND_FACTS, type CommandFacts } from "./flags/commands.ts";
import type { CommandName } from "./flags/flag.ts";
import { FLAG_GROUPS } from "./flags/table.ts";
import { UNUSED_TITLE } from "./settings/table.ts";
import { commandGrammar } from "./grammar.ts";

/** The help text of a command, ending with a line feed. */
export function helpText(command: CommandName): string {
  const facts = COMMAND_FACTS[command];
  const page = getDocPageSync(commandGrammar(command), []);
  const sections = (page?.sections ?? [])
    .filter(({ title }) => title !== UNUSED_TITLE)
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

function unusedFlags({ shows }: CommandFacts): string[] {
  const group = FLAG_GROUPS.find(({ title }) => title === UNUSED_TITLE);
  if (group === undefined || !shows(group)) return [];
  return [`${group.title}:\n${group.flags.map(({ name }) => `  --${name}`).join("\n")}`];
}
