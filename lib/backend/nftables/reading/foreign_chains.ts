/**
 * Reads the chains of other programs.
 *
 * @module
 */
import type { ForeignChain } from "../../../findings/facts.ts";
import { parseHook } from "../kernel/declaration.ts";
import { OWN_TABLES } from "../kernel/tables.ts";

const HOOK = /^type (\S+) hook (\S+)(?: device .*)? priority (-?\d+) policy (\S+)/;

/**
 * Parses the chains of all tables but ours.
 *
 * @param listing as `nft --terse list ruleset` prints it
 */
export function foreignChains(listing: string): ForeignChain[] {
  const tables = [...listing.matchAll(/^table (\S+ \S+) \{\n([^]*?)^\}/gm)];
  return tables.flatMap(([, table = "", body = ""]) =>
    OWN_TABLES.includes(table)
      ? []
      : [...body.matchAll(/^\tchain (\S+) \{\n([^]*?)^\t\}/gm)].map(([, name = "", lines = ""]) =>
        parseChain(table, name, lines.split("\n").map((line) => line.trim()))
      )
  );
}

function parseChain(table: string, name: string, lines: readonly string[]): ForeignChain {
  const [first = "", ...rest] = lines.filter((line) => line !== "");
  const [, type, hook, priority, policy] = HOOK.exec(parseHook(first) ?? "") ?? [];
  if (type === undefined || hook === undefined || policy === undefined) {
    return { table, name, rules: first === "" ? [] : [first, ...rest] };
  }
  return { table, name, hook: { type, hook, priority: Number(priority), policy }, rules: rest };
}
