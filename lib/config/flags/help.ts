/**
 * The help text.
 *
 * @module
 */
import { COMMAND_FACTS, type CommandFacts } from "./commands.ts";
import type { CommandName, Flag } from "./flag.ts";
import { FLAG_GROUPS, isOf } from "./table.ts";
import { UNUSED_TITLE } from "../settings/table.ts";

/** Characters before the descriptions, without the indentation. */
const NAMES_WIDTH = 46;

/** The help text of a command, ending with a line feed. */
export function helpText(command: CommandName): string {
  const facts = COMMAND_FACTS[command];
  return [
    facts.introduction,
    ...usedFlags(command),
    ...unusedFlags(facts),
    `Examples:\n${facts.examples.map((line) => `  ${line}`).join("\n")}`,
    `Exit codes:\n${facts.exitCodes.map(([code, text]) => `  ${code}  ${text}`).join("\n")}`,
  ].join("\n\n") + "\n";
}

function usedFlags(command: CommandName): string[] {
  return FLAG_GROUPS.filter(COMMAND_FACTS[command].shows).flatMap(({ title, flags }) => {
    const shown = flags.filter((flag) => isOf(flag, command) && !flag.hidden);
    if (title === UNUSED_TITLE || shown.length === 0) return [];
    return [`${title}:\n${shown.map(flagLine).join("\n")}`];
  });
}

function flagLine({ name, letter, value, help }: Flag): string {
  const names = `${letter === undefined ? "" : `-${letter}, `}--${name}`;
  return `  ${(value === undefined ? names : `${names} ${value}`).padEnd(NAMES_WIDTH)}  ${help}`;
}

function unusedFlags({ shows }: CommandFacts): string[] {
  const group = FLAG_GROUPS.find(({ title }) => title === UNUSED_TITLE);
  if (group === undefined || !shows(group)) return [];
  return [`${group.title}:\n${group.flags.map(({ name }) => `  --${name}`).join("\n")}`];
}
