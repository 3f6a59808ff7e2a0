/**
 * The help text.
 *
 * @module
 */
import { flagGrammar } from "./grammar.ts";
import { formatDocPage } from "@optique/core/doc";
import { getDocPageSync } from "@optique/core/parser";
import { COMMAND_FACTS, type CommandFacts } from "../config/flags/commands.ts";
import type { CommandName } from "../config/flags/flag.ts";
import { FLAG_GROUPS } from "../config/flags/table.ts";
import { UNUSED_TITLE } from "../config/settings/table.ts";

/** Columns of flags and their values, before the descriptions. */
const NAMES_WIDTH = 46;

/** Columns that descriptions need at least; a narrower terminal breaks lines by itself. */
const MIN_DESCRIPTION = 20;

/**
 * The help text of a command, ending with a line feed.
 *
 * @param columns the width of the terminal; `undefined`: lines are as long as they are
 */
export function helpText(command: CommandName, columns?: number): string {
  const facts = COMMAND_FACTS[command];
  const { sections = [] } = getDocPageSync(flagGrammar(command), []) ?? {};
  const wraps = columns !== undefined && columns >= NAMES_WIDTH + MIN_DESCRIPTION;
  const flags = formatDocPage("signpost", { sections }, {
    colors: false,
    showUsage: false,
    termWidth: NAMES_WIDTH,
    ...wraps && { maxWidth: columns },
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
