/**
 * Describes the rules of this node for a bug report: without elements, and without comments, for people
 * write secrets there.
 *
 * @module
 */
import { FAMILIES } from "../model/values/address.ts";
import { atOnce } from "../model/ports/in_turns.ts";
import type { ProcessRunner } from "../model/ports/ports.ts";
import { runIfInstalled } from "./iptables/kernel/run.ts";
import { isOwnChain, parseSaved, type SavedTable } from "./iptables/kernel/saved.ts";
import { programName } from "./iptables/script/script.ts";
import { Nft } from "./nftables/kernel/nft.ts";
import { OWN_TABLES } from "./nftables/kernel/tables.ts";

/** Chains of one table of another program that are listed. */
const MOST_CHAINS = 50;

/**
 * Returns signpost's nftables tables with their rules, and the chains of all other tables with the number
 * of their rules.
 *
 * @throws {ApplyError} if nft cannot be run
 */
export async function nftStructure(runner: ProcessRunner): Promise<string> {
  const listing = withoutComments(await new Nft(runner).listRuleset());
  return listing.split(/^(?=table )/m).map((table) => {
    const [, name = ""] = /^table (\S+ \S+) \{/.exec(table) ?? [];
    if (OWN_TABLES.includes(name)) return table;
    return name === "" ? "" : outlineOf(name, table);
  }).join("");
}

/**
 * Returns the chains of both variants of iptables with the number of their rules.
 *
 * @throws {ApplyError} if a program does not end
 */
export async function iptablesStructure(runner: ProcessRunner): Promise<string> {
  const parts: string[] = [];
  for (const variant of ["-nft", "-legacy"] as const) {
    for (const family of FAMILIES) {
      const program = programName(family, "-save", variant);
      const saved = await runIfInstalled(runner, [program]);
      const tables = saved ? [...atOnce(parseSaved(saved.stdout)).values()] : [];
      parts.push(`# ${program}${saved ? "" : ": not installed"}\n`, ...tables.map(chainsOf));
    }
  }
  return parts.join("");
}

function withoutComments(listing: string): string {
  return listing.replace(/\bcomment "[^"\n]*"/g, 'comment "…"');
}

/** Lists hooks and numbers of rules. */
function outlineOf(name: string, table: string): string {
  const chains = table.matchAll(/^\tchain (\S+) \{\n([^]*?)^\t\}/gm);
  const lines = [...chains].map(([, chain, body = ""]) => {
    const [hook = ""] = /^\t\ttype .*$/m.exec(body) ?? [];
    const rules = body.split("\n").length - 1 - (hook === "" ? 0 : 1);
    return `\tchain ${chain}: ${rules} rules${hook === "" ? "" : `, ${hook.trim()}`}\n`;
  });
  return `table ${name} # of another program\n${capped(lines)}`;
}

function chainsOf({ name, builtIn, chains, rules }: SavedTable): string {
  const counts = new Map<string, number>([...builtIn.keys(), ...chains].map((each) => [each, 0]));
  for (const { chain } of rules) counts.set(chain, (counts.get(chain) ?? 0) + 1);
  const ours = [...counts].filter(([chain]) => isOwnChain(chain));
  const others = [...counts].filter(([chain]) => !isOwnChain(chain));
  const line = ([chain, count]: readonly [string, number]) =>
    `\tchain ${chain}: ${count} rules${
      builtIn.has(chain) ? `, policy ${builtIn.get(chain)}` : ""
    }\n`;
  return `table ${name}\n${capped(others.map(line))}${capped(ours.map(line))}`;
}

function capped(lines: readonly string[]): string {
  const more = lines.length - MOST_CHAINS;
  return lines.slice(0, MOST_CHAINS).join("") + (more > 0 ? `\t… and ${more} more chains\n` : "");
}
