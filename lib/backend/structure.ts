/** Describes the rules of this node for a bug report, without elements and comments, which may have secrets. */
import { FAMILIES } from "../model/values/address.ts";
import { atOnce } from "../model/ports/in_turns.ts";
import type { ProcessRunner } from "../model/ports/ports.ts";
import { runIfInstalled } from "../model/kernel/dataplane.ts";
import { isOwnChain, parseSaved, type SavedTable } from "./iptables/kernel/saved.ts";
import { programName } from "./iptables/script/names.ts";
import { Nft, OWN_TABLES } from "./nftables/nft.ts";

/** The limit of listed chains in a table of another program. */
const MOST_CHAINS = 50;

/** Returns signpost's tables, and outlines of all other tables. @throws {ApplyError} if nft cannot be run */
export async function nftStructure(runner: ProcessRunner): Promise<string> {
  const listing = withoutTexts(await new Nft(runner).listRuleset());
  return listing.split(/^(?=table )/m).map((table) => {
    const [, name = ""] = /^table (\S+ \S+) \{/.exec(table) ?? [];
    if (OWN_TABLES.includes(name)) return table;
    return name === "" ? "" : outlineOf(name, table);
  }).join("");
}

/** Returns outlines of both variants of iptables. @throws {ApplyError} if a program does not end */
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

/** Removes texts that people wrote: comments, and prefixes of log lines. */
function withoutTexts(listing: string): string {
  return listing.replace(/\b(comment|prefix) "[^"\n]*"/g, '$1 "…"');
}

function outlineOf(name: string, table: string): string {
  const chains = table.matchAll(/^\tchain (\S+) \{\n([^]*?)^\t\}/gm);
  const lines = [...chains].map(([, chain, body = ""]) => {
    const [hook = ""] = /^\t\ttype .*$/m.exec(body) ?? [];
    const rules = body.split("\n").length - 1 - (hook === "" ? 0 : 1);
    return `\tchain ${chain}: ${rules} rules${hook === "" ? "" : `, ${hook.trim()}`}\n`;
  });
  return `table ${name} # of another program\n${capped(lines)}`;
}

function chainsOf({ name, builtIn, chains }: SavedTable): string {
  const line = (chain: string, rules: readonly string[], more = "") =>
    `\tchain ${chain}: ${rules.length} rules${more}\n`;
  const lines = (isOurs: boolean) =>
    [...chains].filter(([chain]) => isOwnChain(chain) === isOurs)
      .map(([chain, rules]) => line(chain, rules));
  const hooked = [...builtIn].map(([chain, { policy, rules }]) =>
    line(chain, rules, `, policy ${policy}`)
  );
  return `table ${name}\n${capped([...hooked, ...lines(false)])}${capped(lines(true))}`;
}

function capped(lines: readonly string[]): string {
  const more = lines.length - MOST_CHAINS;
  return lines.slice(0, MOST_CHAINS).join("") + (more > 0 ? `\t… and ${more} more chains\n` : "");
}
