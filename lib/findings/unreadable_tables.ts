/**
 * Checks that nft can read the tables of other programs: it crashes on sets that nft 1.1.3 and newer wrote,
 * and then writes no rule of ours.
 *
 * @module
 */
import type { NodeFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** Finds tables on which nft crashes. */
export function checkUnreadableTables({ ruleset }: NodeFacts): Finding[] {
  if (!ruleset || ruleset.unreadable.length === 0) return [];
  return [unreadableTablesFinding(ruleset.nft, ruleset.unreadable)];
}

/**
 * Makes the finding.
 *
 * @param nft its version, such as `1.0.6`
 * @param tables such as `inet firewalld`
 */
export function unreadableTablesFinding(nft: string, tables: readonly string[]): Finding {
  const where = tables.map((table) => `table ${table}`).join(", ");
  const what = `nft ${nft} crashes on ${where}, so no rule can be written`;
  return finding("nft-crashes", { what, where });
}
