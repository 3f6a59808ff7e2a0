/**
 * The flags of a command as parsers of @optique/core, out of the table of settings: completions are
 * made of them.
 *
 * Command lines are split by `config/flags/scan.ts`: loading these parsers would hold up each start of
 * the daemon (CONTRIBUTING.md).
 *
 * @module
 */
// Before @optique/core.
import "../system/segmenter.ts";
import { group, object } from "@optique/core/constructs";
import { text } from "@optique/core/message";
import { multiple } from "@optique/core/modifiers";
import type { Parser } from "@optique/core/parser";
import { option } from "@optique/core/primitives";
import type { OptionName } from "@optique/core/usage";
import { string, type ValueParser } from "@optique/core/valueparser";
import type { CommandName, Flag } from "../config/flags/flag.ts";
import { flagGroupsOf } from "../config/flags/table.ts";
import { UNUSED_TITLE } from "../config/settings/table.ts";

/** Parses something at once. */
export type Grammar = Parser<"sync", unknown, unknown>;

/** The flags that a command shows, in the groups of the help text; without those that have no effect. */
export function flagGrammar(command: CommandName): Grammar {
  const groups: Record<string, Grammar> = {};
  for (const { title, flags } of flagGroupsOf(command)) {
    if (title === UNUSED_TITLE) continue;
    const parsers = Object.fromEntries(flags.map((flag) => [flag.name, flagParser(flag)]));
    groups[title] = group(title, object(parsers));
  }
  return object(groups);
}

function flagParser(flag: Flag): Grammar {
  const { name, letter, kind, help } = flag;
  const long = `--${name}` as const;
  const names: readonly [OptionName, ...OptionName[]] = letter === undefined
    ? [long]
    : [`-${letter}`, long];
  const options = { description: [text(help)] };
  // A switch is shown alone, without =true.
  if (kind === "boolean") return multiple(option(...names, options));
  return multiple(option(...names, valueParser(flag), options));
}

function valueParser(
  { value: metavar = "VALUE", choices = [] }: Flag,
): ValueParser<"sync", string> {
  const isPath = choices.length === 0 && (metavar === "FILE" || metavar === "PATH");
  // Not `path` of @optique/run: it needs node:fs, and a bundle loads that at each start, whatever is asked
  // for. Not `choice`: its part of the help text needs `Intl.ListFormat`, which QuickJS may not have.
  return {
    ...string({ metavar }),
    *suggest(prefix) {
      if (isPath) yield { kind: "file", type: "any", pattern: prefix };
      for (const text of choices) if (text.startsWith(prefix)) yield { kind: "literal", text };
    },
  };
}
