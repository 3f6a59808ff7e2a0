/** Checks base chains of other programs: firewalls that drop what Services send, and nat chains before ours. */
import {
  cidrContains,
  FAMILIES,
  type Family,
  familyOf,
  parseCidr,
} from "../model/values/address.ts";
import { serviceOf } from "../model/cluster/names.ts";
import { isExternal } from "../model/kernel/desired.ts";
import { eachPort, type ForeignChain, type NodeFacts } from "./facts.ts";
import type { Finding } from "../model/status.ts";
import { finding } from "./catalog.ts";

/** Our nat chains of prerouting and output have this priority in nftables mode, and the next one in iptables mode. */
const NAT_PRIORITY = -101;

type BaseChain = ForeignChain & { readonly hook: NonNullable<ForeignChain["hook"]> };

function baseChains({ ruleset }: NodeFacts, type: string, hooks: readonly string[]): BaseChain[] {
  return (ruleset?.chains ?? []).flatMap(({ hook, ...rest }) =>
    hook?.type === type && hooks.includes(hook.hook) ? [{ ...rest, hook }] : []
  );
}

/** Finds nat chains that decide before ours, or may do so. */
export function* checkNatOrder(facts: NodeFacts): Generator<Finding> {
  for (const { table, name, hook } of baseChains(facts, "nat", ["prerouting", "output"])) {
    if (hook.priority > NAT_PRIORITY) continue;
    const what = `chain ${name} of table ${table} does NAT at ${hook.hook} with priority ` +
      `${hook.priority}, before Services`;
    yield finding("nat-chain-before-ours", { what, where: `chain ${table} ${name}` });
  }
}

/** Finds firewalls that drop new connections from outside to endpoints, or to health-check node ports. */
export function* checkFirewalls(facts: NodeFacts): Generator<Finding | undefined> {
  const bases = baseChains(facts, "filter", ["forward", "input"]);
  if (bases.length === 0) return;
  const found = new Map<string, Finding>();
  for (const packet of yield* samples(facts)) {
    for (const base of bases) {
      const isMet = base.hook.hook === packet.hook && seesFamily(base.table, packet.family);
      if (!isMet || !drops(packet, base, facts.ruleset?.chains ?? [])) continue;
      // A chain of both families has one finding.
      const each = dropped(base, packet);
      found.set(each.where, each);
    }
  }
  yield* found.values();
}

/** The first packet of a connection from outside the cluster that a Service needs. */
interface Packet {
  /** `forward`: our DNAT sent it to an endpoint. `input`: it is for a health-check node port. */
  readonly hook: "forward" | "input";
  readonly service: string;
  readonly family: Family;
  readonly protocol: string;
  readonly daddr: string;
  readonly dport: number;
  /** Ranges that its source is not in. */
  readonly notFrom: readonly string[];
}

/** Returns, for each family, a packet to an endpoint, and one to a health-check node port. */
function* samples(
  { objects, interfaceAddresses, configuration }: NodeFacts,
): Generator<undefined, Packet[]> {
  if (!objects) return [];
  const own = new Set(interfaceAddresses);
  const found = new Map<string, Packet>();
  const add = (packet: Omit<Packet, "notFrom">) =>
    found.set(`${packet.hook} ${packet.family}`, {
      ...packet,
      notFrom: configuration.clusterCIDRs,
    });
  yield* eachPort(objects.desired, (port) => {
    const { name, family, protocol, healthCheckNodePort } = port;
    const endpoint = isExternal(port) && !found.has(`forward ${family}`)
      ? port.clusterEndpoints.find(({ address }) => !own.has(address))
      : undefined;
    if (endpoint) {
      const { address: daddr, port: dport } = endpoint;
      add({ hook: "forward", service: serviceOf(name), family, protocol, daddr, dport });
    }
    const daddr = objects.node?.addresses.find((address) => familyOf(address) === family);
    if (healthCheckNodePort && daddr !== undefined && !found.has(`input ${family}`)) {
      const dport = healthCheckNodePort;
      add({ hook: "input", service: serviceOf(name), family, protocol: "tcp", daddr, dport });
    }
    return found.size === 2 * FAMILIES.length;
  });
  return [...found.values()];
}

/** Returns true if the chains of a table, such as `inet hostfw`, see packets of an IP family. */
export function seesFamily(table: string, family: Family): boolean {
  return new RegExp(`^(?:inet|ip${family === 6 ? "6" : ""}(?:tables-legacy)?) `).test(table);
}

function dropped({ table, name }: BaseChain, packet: Packet): Finding {
  const { hook, service, daddr, dport, protocol } = packet;
  const chain = `chain ${name} of table ${table}`;
  const where = `chain ${table} ${name}`;
  // Only iptables names its chains in capitals.
  const isIptables = /^ip6?(?:tables-legacy)? filter$/.test(table) && name === name.toUpperCase();
  const variant = table.includes("-legacy") ? "-legacy" : "";
  const program = `${table.startsWith("ip6") ? "ip6tables" : "iptables"}${variant}`;
  const accept = (matches: string, expression: string) =>
    isIptables
      ? `Accept them: ${program} -I ${name} ${matches} -j ACCEPT`
      : `Accept them: nft insert rule ${table} ${name} ${expression} accept`;
  if (hook === "input") {
    return finding("firewall-drops-health-checks", {
      what: `${chain} drops health checks at node port ${dport} (${service})`,
      where,
      remedy: accept(`-p tcp --dport ${dport}`, `tcp dport ${dport}`),
      services: [service],
    });
  }
  return finding("firewall-drops-services", {
    what: `${chain} drops connections from outside that Services send to endpoints, such as ` +
      `${service} to ${daddr} ${protocol} port ${dport}`,
    where,
    remedy: accept("-m conntrack --ctstate DNAT", "ct status dnat"),
  });
}

/** Rules that are followed for one packet. */
const MOST_RULES = 10_000;

/** Returns true if a base chain drops a packet for certain: each rule that may accept it is understood. */
function drops(packet: Packet, base: BaseChain, chains: readonly ForeignChain[]): boolean {
  const own = new Map(
    chains.filter(({ table }) => table === base.table).map((each) => [each.name, each.rules]),
  );
  let left = MOST_RULES;
  const follow = (rules: readonly string[], depth: number): "drop" | "end" | "may pass" => {
    for (const rule of rules) {
      // The kernel allows 16 jumps.
      if (left-- <= 0 || depth > 16) return "may pass";
      const { match, verdict, target } = readRule(rule, packet);
      if (match === false || verdict === "") continue;
      if (verdict === "pass") return "may pass";
      const isJump = verdict === "jump" || verdict === "goto";
      const outcome = isJump
        ? follow(own.get(target) ?? [], depth + 1)
        : verdict === "drop"
        ? "drop"
        : "end";
      if (outcome === "may pass") return outcome;
      if (match && (outcome === "drop" || verdict !== "jump")) return outcome;
    }
    return "end";
  };
  const outcome = follow(base.rules, 0);
  return outcome === "drop" || outcome === "end" && base.hook.policy === "drop";
}

/** `undefined`: it cannot be told. */
type Match = boolean | undefined;

/** Statements that decide nothing. */
const STATEMENTS =
  /\b(?:counter packets \d+ bytes \d+|counter(?: name)? "[^"]*"|counter|log(?: prefix "[^"]*")?(?: (?:level|flags|group|snaplen) \S+)*|comment "[^"]*"|meta mark set \S+(?: [|&^] \S+)*|ct mark set \S+)(?= |$)/g;

/** A verdict that is no drop, return or jump may let the packet pass. */
const VERDICT =
  /(?:^| )(?:(return)|(drop)|(reject)(?: with .*)?|(jump|goto) (\S+)|accept|(?:queue|vmap|dnat|redirect|tproxy|synproxy|fwd|dup|flow) ?.*)$/;

interface Rule {
  readonly match: Match;
  /** `""`: none. */
  readonly verdict: "" | "pass" | "drop" | "return" | "jump" | "goto";
  readonly target: string;
}

function readRule(text: string, packet: Packet): Rule {
  const rule = text.replace(STATEMENTS, "").replaceAll(/ +/g, " ").trim();
  // `ct state vmap { established : accept, invalid : drop }`: the packet's state is new.
  const states = /^ct state vmap \{ ([^}]*) \}$/.exec(rule)?.[1];
  if (states !== undefined) {
    const verdict = /\bnew : ([^,]+)/.exec(states)?.[1]?.trim();
    return verdict === undefined
      ? { match: false, verdict: "", target: "" }
      : readRule(verdict, packet);
  }
  const found = VERDICT.exec(rule);
  const [, back, drop, reject, jump, target = ""] = found ?? [];
  const verdict = back ?? drop ?? (reject && "drop") ?? jump ?? (found ? "pass" : "");
  const match = matchAll(rule.replace(VERDICT, "").trim(), packet);
  return { match, verdict: verdict as Rule["verdict"], target };
}

const STATES: ReadonlySet<string> = new Set(["established", "related", "invalid", "untracked"]);

/** The matches that are understood; each function returns true if a value holds. */
const MATCHES: readonly (readonly [RegExp, (value: string, packet: Packet) => Match])[] = [
  [pattern("ct state"), (state) => state === "new" || (STATES.has(state) ? false : undefined)],
  [pattern("ct status"), (what, { hook }) => what === "dnat" ? hook === "forward" : undefined],
  [pattern("(?:iif|iifname|oif|oifname)"), (link) => link === '"lo"' ? false : undefined],
  [pattern("meta nfproto"), (name, { family }) => name === `ipv${family}`],
  [pattern("(?:meta l4proto|ip protocol|ip6 nexthdr)"), (name, { protocol }) => name === protocol],
  [pattern("fib daddr type"), (type, { hook }) => type === "local" && hook === "input"],
  [pattern("ip6? daddr"), isTo],
  [pattern("ip6? saddr"), isFrom],
  [pattern("(?:tcp|udp|sctp|th) dport"), inPorts],
];

/** Matches an expression with a value, or values in braces, after an operator. */
function pattern(what: string): RegExp {
  return new RegExp(`^${what} (!= )?(\\{ [^}]* \\}|\\S+)(?: |$)`);
}

/** Returns true if all matches of a rule hold. */
function matchAll(text: string, packet: Packet): Match {
  let [rest, all] = [text, true as Match];
  while (rest !== "") {
    if (!suits(rest, packet)) return false;
    const [known, holds] = MATCHES.find(([known]) => known.test(rest)) ?? [];
    const [whole, not, values = ""] = known?.exec(rest) ?? [];
    if (whole === undefined || !holds) return undefined;
    const each = values.replaceAll(/^\{ | \}$/g, "").split(/, ?/).map((value) =>
      holds(value, packet)
    );
    const isListed = each.includes(true) || (each.includes(undefined) ? undefined : false);
    if (isListed === undefined) all = undefined;
    else if (isListed === (not !== undefined)) return false;
    rest = rest.slice(whole.length);
  }
  return all;
}

/** Returns true if a match is about the packet's protocol and IP family. */
function suits(match: string, { family, protocol }: Packet): boolean {
  const [, word = ""] = /^(\S+) /.exec(match) ?? [];
  if (word === "ip" || word === "icmp") return family === 4 && word === "ip";
  if (word === "ip6" || word === "icmpv6") return family === 6 && word === "ip6";
  return !["tcp", "udp", "sctp"].includes(word) || word === protocol;
}

function cidrOf(range: string): string | undefined {
  return parseCidr(range.includes("/") ? range : `${range}/${range.includes(":") ? 128 : 32}`);
}

function isTo(range: string, { daddr }: Packet): Match {
  const cidr = cidrOf(range);
  return cidr === undefined ? undefined : cidrContains(cidr, daddr);
}

function isFrom(range: string, { notFrom }: Packet): Match {
  const cidr = cidrOf(range);
  return cidr !== undefined && notFrom.some((outer) => cidrContains(outer, cidr))
    ? false
    : undefined;
}

function inPorts(ports: string, { dport }: Packet): Match {
  const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(ports) ?? [];
  return first === undefined ? undefined : Number(first) <= dport && dport <= Number(last);
}
