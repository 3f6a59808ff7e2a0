/** Reads the filter chains of other programs: of iptables-legacy, which nft does not list, and in iptables mode. */
import type { ForeignChain } from "../findings/facts.ts";
import { FAMILIES, type Family, NFT_FAMILY } from "../model/values/address.ts";
import { append } from "../model/values/lists.ts";
import { atOnce } from "../model/ports/in_turns.ts";
import type { ProcessRunner } from "../model/ports/ports.ts";
import { ApplyError, runIfInstalled } from "../model/kernel/dataplane.ts";
import { Nft } from "./nftables/nft.ts";
import { foreignChains } from "./nftables/read.ts";
import { parseSaved, type SavedTable, tokens } from "./iptables/kernel/saved.ts";
import { programName } from "./iptables/script/names.ts";

/**
 * Reads the chains of the family `inet`; none if nft cannot. `ip` and `ip6` are usually iptables': their `nat` may be
 * large, and `filter` in iptables mode accepts Service packets.
 */
export async function inetChains(runner: ProcessRunner): Promise<ForeignChain[]> {
  try {
    return foreignChains(await new Nft(runner).listRuleset("inet"));
  } catch (error) {
    if (error instanceof ApplyError) return [];
    throw error;
  }
}

/** Reads the filter chains of iptables-legacy, both families. @throws {ApplyError} if a program does not end */
export async function legacyChains(runner: ProcessRunner): Promise<ForeignChain[]> {
  const chains: ForeignChain[] = [];
  for (const family of FAMILIES) {
    // Without `-t` it loads no kernel module.
    const saved = await runIfInstalled(runner, [programName(family, "-save", "-legacy")]);
    const filter = saved?.code === 0 ? atOnce(parseSaved(saved.stdout)).get("filter") : undefined;
    if (filter) append(chains, translateFilter(filter, family));
  }
  return chains;
}

/** Translates the chains of a table `filter` into chains with rules as nft prints them. */
export function translateFilter(filter: SavedTable, family: Family): ForeignChain[] {
  const table = `${programName(family, "", "-legacy")} filter`;
  const chainOf = (name: string, rules: readonly string[], policy?: string): ForeignChain => ({
    table,
    name,
    hook: policy === undefined
      ? undefined
      : { type: "filter", hook: name.toLowerCase(), priority: 0, policy: policy.toLowerCase() },
    rules: rules.map((rule) => translateRule(tokens(rule), { family, chains: filter.chains })),
  });
  return [
    ...[...filter.builtIn].map(([name, { policy, rules }]) => chainOf(name, rules, policy)),
    ...[...filter.chains].map(([name, rules]) => chainOf(name, rules)),
  ];
}

/** Modules whose options alone decide. */
const MODULES: ReadonlySet<string> = new Set(
  ["tcp", "udp", "sctp", "multiport", "conntrack", "state", "addrtype", "comment"],
);

/** Targets that let the next rule follow. */
const PASSING: ReadonlySet<string> = new Set(["LOG", "NFLOG", "MARK", "CONNMARK", "TRACE"]);

/** Translates the value of an option into nft's words. */
const OPTIONS = new Map<string, (value: string, ip: string) => string>([
  ["-p", (value) => `meta l4proto ${value}`],
  ["-s", (value, ip) => `${ip} saddr ${value}`],
  ["-d", (value, ip) => `${ip} daddr ${value}`],
  ["-i", (value) => `iifname "${value}"`],
  ["-o", (value) => `oifname "${value}"`],
  ["--dport", ports],
  ["--dports", ports],
  ["--dst-type", (value) => `fib daddr type ${value.toLowerCase()}`],
  ["--ctstate", states],
  ["--state", states],
]);

function ports(value: string): string {
  return `th dport { ${value.replaceAll(":", "-").replaceAll(",", ", ")} }`;
}

function states(value: string): string {
  if (value === "DNAT") return "ct status dnat";
  return `ct state { ${value.toLowerCase().replaceAll(",", ", ")} }`;
}

interface Context {
  readonly family: Family;
  readonly chains: ReadonlyMap<string, unknown>;
}

/** Translates a rule. An unknown part becomes a match that the check does not understand either. */
function translateRule(words: readonly string[], { family, chains }: Context): string {
  const parts: string[] = [];
  let isNot = false;
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? "";
    if (word === "!") {
      isNot = true;
      continue;
    }
    const value = words[index + 1] ?? "";
    if (word === "-j" || word === "-g") {
      const verdict = verdictOf(word, value, chains);
      return [...parts, ...verdict].join(" ");
    }
    const match = OPTIONS.get(word)?.(value, NFT_FAMILY[family]);
    if (match !== undefined) parts.push(isNot ? negate(match) : match);
    else if (word !== "--comment" && !(word === "-m" && MODULES.has(value))) {
      parts.push(`xt match "${word}"`);
    }
    isNot = false;
    if (!(words[index + 1] ?? "-").startsWith("-")) index++;
  }
  return parts.join(" ");
}

/** Puts `!=` before the value: the last word, or all in braces. */
function negate(match: string): string {
  return match.replace(/(\{.*\}|\S+)$/, "!= $1");
}

function verdictOf(word: string, target: string, chains: ReadonlyMap<string, unknown>): string[] {
  if (chains.has(target)) return [word === "-j" ? "jump" : "goto", target];
  if (PASSING.has(target)) return [];
  const known = ["ACCEPT", "DROP", "RETURN", "REJECT"].includes(target);
  return [known ? target.toLowerCase() : "queue"];
}
