/** Reads routes, and the rules of other programs in nft's tables and in iptables-legacy, which nft does not list. */
import type { ForeignChain, Route } from "../findings/facts.ts";
import { FAMILIES, type Family, integerToAddress, NFT_FAMILY } from "../model/values/address.ts";
import { append } from "../model/values/lists.ts";
import { Turns } from "../model/ports/in_turns.ts";
import type { Clock, ProcessRunner } from "../model/ports/ports.ts";
import { ApplyError, runIfInstalled } from "../model/kernel/dataplane.ts";
import { Nft, outputOrEmpty } from "./nftables/nft.ts";
import { foreignChains } from "./nftables/read.ts";
import { isOwnChain, parseSaved, type SavedTable, tokens } from "./iptables/kernel/saved.ts";
import { programName } from "./iptables/script/names.ts";

/** The tables of iptables, with our rules in iptables mode, and kube-proxy's rules. */
const NAT_TABLES: readonly string[] = ["ip nat", "ip6 nat"];

/** The limit of iptables' chains that are read one by one, so that our chains are not read. */
const MOST_CHAINS = 50;

/** Reads the chains of nft's tables, without our chains in iptables' `nat`. Stops if nft fails. */
export async function nftChains(runner: ProcessRunner): Promise<ForeignChain[]> {
  const nft = new Nft(runner);
  const chains: ForeignChain[] = [];
  try {
    for (const [table, names] of await nft.listChainNames()) {
      if (!NAT_TABLES.includes(table)) append(chains, foreignChains(await nft.listTerse(table)));
      else {
        for (const name of names.filter((each) => !isOwnChain(each)).slice(0, MOST_CHAINS)) {
          append(chains, foreignChains(await outputOrEmpty(() => nft.listChain(table, name))));
        }
      }
    }
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
  }
  return chains;
}

/** The tables of iptables that are read, and the priority of their chains. */
const PRIORITIES = new Map([
  ["raw", -300],
  ["mangle", -150],
  ["nat", -100],
  ["filter", 0],
  ["security", 50],
]);

/** Reads the chains of iptables-legacy, both families. @throws {ApplyError} if a program does not end */
export async function legacyChains(
  { runner, clock }: { readonly runner: ProcessRunner; readonly clock: Clock },
): Promise<ForeignChain[]> {
  const chains: ForeignChain[] = [];
  for (const family of FAMILIES) {
    // Without `-t`, it does not load kernel modules.
    const saved = await runIfInstalled(runner, [programName(family, "-save", "-legacy")]);
    if (saved?.code !== 0) continue;
    for (const table of (await new Turns(clock).run(parseSaved(saved.stdout))).values()) {
      if (PRIORITIES.has(table.name)) append(chains, translateTable(table, family));
    }
  }
  return chains;
}

/** Reads the main routing table of both families. */
export async function readRoutes(runner: ProcessRunner): Promise<Route[]> {
  const [ipv4, ipv6] = await Promise.all(
    ["/proc/net/route", "/proc/net/ipv6_route"].map((path) =>
      runIfInstalled(runner, ["cat", path])
    ),
  );
  return [...parseRoutes(ipv4?.stdout ?? "", 4), ...parseRoutes(ipv6?.stdout ?? "", 6)];
}

const [UP, REJECTS] = [0x1, 0x200];

/** Parses `/proc/net/route` or `/proc/net/ipv6_route`. For each range, keeps the route with the lowest metric. */
export function parseRoutes(text: string, family: Family): Route[] {
  const best = new Map<string, Route & { readonly metric: number }>();
  for (const line of text.split("\n")) {
    const words = line.trim().split(/\s+/);
    const [device = "", range = "", length = 0, flags = "", metric = ""] = family === 4
      ? [words[0], swapBytes(words[1]), bitsOf(words[7]), words[3], Number(words[6]).toString(16)]
      : [words[9], words[0], parseInt(words[1] ?? "", 16), words[8], words[5]];
    const isUsable = (parseInt(flags, 16) & (UP | REJECTS)) === UP && device !== "lo";
    if (!isUsable || !/^(?:[0-9A-Fa-f]{8}|[0-9a-f]{32})$/.test(range)) continue;
    const cidr = `${integerToAddress(family, BigInt(`0x${range}`))}/${length}`;
    const route = { cidr, device, metric: parseInt(metric, 16) };
    if (route.metric < (best.get(cidr)?.metric ?? Infinity)) best.set(cidr, route);
  }
  return [...best.values()].map(({ cidr, device }) => ({ cidr, device }));
}

/** Reverses the bytes: the kernel prints IPv4 addresses in the byte order of a little-endian machine. */
function swapBytes(hex = ""): string {
  return (hex.match(/../g) ?? []).reverse().join("");
}

function bitsOf(mask = ""): number {
  return [...parseInt(mask, 16).toString(2)].filter((bit) => bit === "1").length;
}

/** Translates the chains of a table of iptables into chains with rules as nft prints them. */
export function translateTable(saved: SavedTable, family: Family): ForeignChain[] {
  const table = `${programName(family, "", "-legacy")} ${saved.name}`;
  const isNat = saved.name === "nat";
  const chainOf = (name: string, rules: readonly string[], policy?: string): ForeignChain => ({
    table,
    name,
    hook: policy === undefined ? undefined : {
      type: isNat ? "nat" : "filter",
      hook: name.toLowerCase(),
      priority: PRIORITIES.get(saved.name) ?? 0,
      policy: policy.toLowerCase(),
      devices: [],
    },
    rules: rules.map((rule) => translateRule(tokens(rule), { family, chains: saved.chains })),
  });
  return [
    ...[...saved.builtIn].map(([name, { policy, rules }]) => chainOf(name, rules, policy)),
    ...[...saved.chains].filter(([name]) => !isNat || !isOwnChain(name))
      .map(([name, rules]) => chainOf(name, rules)),
  ];
}

/** Modules whose options alone decide. */
const MODULES: ReadonlySet<string> = new Set(
  ["tcp", "udp", "sctp", "multiport", "conntrack", "state", "addrtype", "comment", "mark", "limit"],
);

/** Targets after which the next rule follows. */
const PASSING: ReadonlySet<string> = new Set(["LOG", "NFLOG", "MARK", "CONNMARK", "TRACE", "CT"]);

/** Translates the value of an option into nft's words. */
const OPTIONS = new Map<string, (value: string, ip: string) => string>([
  ["-p", (value) => `meta l4proto ${value}`],
  ["-s", (value, ip) => `${ip} saddr ${value}`],
  ["-d", (value, ip) => `${ip} daddr ${value}`],
  ["-i", (value) => `iifname "${value.replace(/\+$/, "*")}"`],
  ["-o", (value) => `oifname "${value.replace(/\+$/, "*")}"`],
  ["--dport", ports],
  ["--dports", ports],
  ["--dst-type", (value) => `fib daddr type ${value.toLowerCase()}`],
  ["--ctstate", states],
  ["--state", states],
  ["--mark", marks],
  ["--limit", (value) => `limit rate ${value}`],
  ["--limit-burst", (value) => `burst ${value} packets`],
]);

function ports(value: string): string {
  return `th dport { ${value.replaceAll(":", "-").replaceAll(",", ", ")} }`;
}

function marks(value: string): string {
  const [wanted, mask] = value.split("/");
  return `meta mark ${mask === undefined ? "" : `& ${mask} == `}${wanted}`;
}

/** Translates the options of a target that sets the mark. */
function markSet(value: string): string {
  const [mark = "0x0", mask = "0xffffffff"] = value.split("/");
  const kept = `0x${(~Number(mask) >>> 0).toString(16)}`;
  return `meta mark set meta mark & ${kept} ^ ${mark}`;
}

function states(value: string): string {
  if (value === "DNAT") return "ct status dnat";
  return `ct state { ${value.toLowerCase().replaceAll(",", ", ")} }`;
}

interface Context {
  readonly family: Family;
  readonly chains: ReadonlyMap<string, unknown>;
}

/** Translates a rule. An unknown part becomes a match that the checks of filters do not know either. */
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
      const at = words.indexOf("--set-xmark");
      const mark = value === "MARK" && at >= 0 ? [markSet(words[at + 1] ?? "")] : [];
      const [, to] = /^--to-destination (\S+)$/.exec(words.slice(-2).join(" ")) ?? [];
      const verdict = value === "DNAT" ? [`dnat to ${to}`] : verdictOf(word, value, chains);
      return [...parts, ...mark, ...verdict].join(" ");
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
  return match.replace(/ ==(?= \S+$)/, "").replace(/(\{.*\}|\S+)$/, "!= $1");
}

function verdictOf(word: string, target: string, chains: ReadonlyMap<string, unknown>): string[] {
  if (chains.has(target)) return [word === "-j" ? "jump" : "goto", target];
  if (PASSING.has(target)) return [];
  const known = ["ACCEPT", "DROP", "RETURN", "REJECT"].includes(target);
  return [known ? target.toLowerCase() : "queue"];
}
