/**
 * Checks the base chains of other programs: firewalls that drop what Services send, and nat chains that decide
 * before ours.
 */
import {
  cidrContains,
  FAMILIES,
  type Family,
  isInsideCidr,
  parseCidr,
} from "../model/values/address.ts";
import { serviceOf } from "../model/cluster/names.ts";
import { type DesiredServicePort, isExternal } from "../model/kernel/desired.ts";
import { eachPort, type ForeignChain, type NodeFacts } from "./facts.ts";
import type { Finding } from "../model/status.ts";
import { finding } from "./catalog.ts";

/** Our nat chains of prerouting and output have this priority in nftables mode, and the next one in iptables mode. */
const NAT_PRIORITY = -101;

/** Finds nat chains that decide before ours, or may do so. */
export function checkNatOrder({ ruleset }: NodeFacts): Finding[] {
  const bases = baseChains(ruleset?.chains ?? [], {
    type: "nat",
    hooks: ["prerouting", "output"],
  });
  const early = bases.filter(({ hook }) => hook.priority <= NAT_PRIORITY);
  return early.map(({ table, name, hook: { hook, priority } }) =>
    finding("nat-chain-before-ours", {
      what:
        `chain ${name} of table ${table} does NAT at ${hook} with priority ${priority}, before Services`,
      where: `chain ${table} ${name}`,
    })
  );
}

/** Finds firewalls that drop new connections from outside to endpoints, or to health-check node ports. */
export function* checkFirewalls(facts: NodeFacts): Generator<undefined, Finding[]> {
  const { objects, ruleset } = facts;
  const chains = ruleset?.chains ?? [];
  const bases = baseChains(chains, { type: "filter", hooks: ["forward", "input"] });
  if (!objects || bases.length === 0) return [];
  const findings: Finding[] = [];
  for (const sample of yield* samples(facts)) {
    for (const base of bases) {
      if (base.hook.hook !== sample.hook || !seesFamily(base.table, sample.packet.family)) continue;
      if (fateOf(sample.packet, { base, chains }) === "drop") findings.push(dropped(base, sample));
    }
  }
  // A chain of both families has one finding.
  return [...new Map(findings.map((each) => [each.where, each])).values()];
}

/** A connection that a Service needs, and where it passes. */
interface Sample {
  readonly hook: "forward" | "input";
  readonly service: string;
  readonly packet: Packet;
}

type Destination = Pick<Packet, "daddr" | "dport"> & Partial<Pick<Packet, "protocol">>;

/** Returns, for each family, a connection to an endpoint from outside, and one to a health-check node port. */
function* samples(
  { objects, interfaceAddresses, configuration }: NodeFacts,
): Generator<undefined, Sample[]> {
  if (!objects) return [];
  const own = new Set(interfaceAddresses);
  const found = new Map<string, Sample>();
  const add = (hook: Sample["hook"], port: DesiredServicePort, to: Destination) => {
    const { family, protocol, name } = port;
    const packet: Packet = {
      family,
      protocol,
      isDnat: hook === "forward",
      notFrom: configuration.clusterCIDRs,
      ...to,
    };
    found.set(`${hook} ${family}`, { hook, service: serviceOf(name), packet });
  };
  const nodeAddress = (family: Family) =>
    objects.node?.addresses.find((address) => address.includes(":") === (family === 6));
  yield* eachPort(objects.desired, (port) => {
    const { family, healthCheckNodePort } = port;
    const endpoint = isExternal(port) && !found.has(`forward ${family}`)
      ? port.clusterEndpoints.find(({ address }) => !own.has(address))
      : undefined;
    if (endpoint) add("forward", port, { daddr: endpoint.address, dport: endpoint.port });
    const daddr = nodeAddress(family);
    if (healthCheckNodePort && daddr !== undefined && !found.has(`input ${family}`)) {
      add("input", port, { protocol: "tcp", daddr, dport: healthCheckNodePort });
    }
    return found.size === 2 * FAMILIES.length;
  });
  return [...found.values()];
}

/** Returns true if the chains of a table, such as `inet hostfw`, see packets of an IP family. */
export function seesFamily(table: string, family: Family): boolean {
  return new RegExp(`^(?:inet|ip${family === 6 ? "6" : ""}(?:tables-legacy)?) `).test(table);
}

function dropped({ table, name }: BaseChain, { hook, service, packet }: Sample): Finding {
  const chain = `chain ${name} of table ${table}`;
  const where = `chain ${table} ${name}`;
  // Only iptables names its chains in capitals.
  const isIptables = /^ip6?(?:tables-legacy)? filter$/.test(table) && name === name.toUpperCase();
  const variant = table.includes("-legacy") ? "-legacy" : "";
  const iptables = `${table.startsWith("ip6") ? "ip6tables" : "iptables"}${variant} -I ${name}`;
  const insert = `nft insert rule ${table} ${name}`;
  if (hook === "input") {
    const { dport } = packet;
    return finding("firewall-drops-health-checks", {
      what: `${chain} drops health checks at node port ${dport} (${service})`,
      where,
      remedy: isIptables
        ? `Accept them: ${iptables} -p tcp --dport ${dport} -j ACCEPT`
        : `Accept them: ${insert} tcp dport ${dport} accept`,
      services: [service],
    });
  }
  return finding("firewall-drops-services", {
    what: `${chain} drops connections from outside that Services send to endpoints, such as ` +
      `${service} to ${packet.daddr} ${packet.protocol} port ${packet.dport}`,
    where,
    remedy: isIptables
      ? `Accept them: ${iptables} -m conntrack --ctstate DNAT -j ACCEPT`
      : `Accept them: ${insert} ct status dnat accept`,
  });
}

type BaseChain = ForeignChain & { readonly hook: NonNullable<ForeignChain["hook"]> };

function baseChains(
  chains: readonly ForeignChain[],
  { type, hooks }: { readonly type: string; readonly hooks: readonly string[] },
): BaseChain[] {
  return chains.flatMap(({ hook, ...rest }) =>
    hook?.type === type && hooks.includes(hook.hook) ? [{ ...rest, hook }] : []
  );
}

/** The first packet of a connection from outside the cluster. */
interface Packet {
  readonly family: Family;
  readonly protocol: string;
  readonly daddr: string;
  readonly dport: number;
  /** Our DNAT sent it there; else it is for the node itself. */
  readonly isDnat: boolean;
  /** Ranges that its source is not in. */
  readonly notFrom: readonly string[];
}

/** `unknown`: a rule that is not understood may accept the packet. */
type Fate = "accept" | "drop" | "unknown";

/** The result of the rest of a chain; `continue`: its end is reached. */
type Outcome = Fate | "continue";

/** Rules that are followed for one packet. */
const MOST_RULES = 10_000;

/** Returns what a base chain does with a packet, as far as its rules are understood. */
function fateOf(
  packet: Packet,
  { base, chains }: { readonly base: ForeignChain; readonly chains: readonly ForeignChain[] },
): Fate {
  const own = new Map(
    chains.filter(({ table }) => table === base.table).map((each) => [each.name, each.rules]),
  );
  let left = MOST_RULES;
  const follow = (rules: readonly string[], depth: number): Outcome => {
    for (const rule of rules) {
      // The kernel allows 16 jumps.
      if (left-- <= 0 || depth > 16) return "unknown";
      const { match, verdict, target } = readRule(rule, packet);
      if (match === false || verdict === "") continue;
      if (verdict === "jump" || verdict === "goto") {
        const outcome = follow(own.get(target) ?? [], depth + 1);
        if (match === undefined && outcome !== "continue") {
          if (outcome !== "drop") return "unknown";
        } else if (outcome !== "continue" || verdict === "goto" && match) return outcome;
      } else if (verdict === "unknown") return "unknown";
      else if (verdict === "accept") return match ? "accept" : "unknown";
      else if (match) return verdict === "return" ? "continue" : "drop";
    }
    return "continue";
  };
  const outcome = follow(base.rules, 0);
  if (outcome !== "continue") return outcome;
  return base.hook?.policy === "drop" ? "drop" : "accept";
}

/** `undefined`: it cannot be told. */
type Match = boolean | undefined;

/** Statements that decide nothing. */
const STATEMENTS =
  /\b(?:counter packets \d+ bytes \d+|counter(?: name)? "[^"]*"|counter|log(?: prefix "[^"]*")?(?: (?:level|flags|group|snaplen) \S+)*|comment "[^"]*"|meta mark set \S+(?: [|&^] \S+)*|ct mark set \S+)(?= |$)/g;

const VERDICT =
  /(?:^| )(?:(accept|drop|return)|(jump|goto) (\S+)|(reject)(?: with .*)?|(queue|vmap|dnat|redirect|tproxy|synproxy|fwd|dup|flow) ?.*)$/;

interface Rule {
  readonly match: Match;
  /** `""`: none. */
  readonly verdict: "" | "accept" | "drop" | "return" | "jump" | "goto" | "unknown";
  readonly target: string;
}

function readRule(text: string, packet: Packet): Rule {
  const rule = text.replace(STATEMENTS, "").replaceAll(/ +/g, " ").trim();
  const states = /^ct state vmap \{ ([^}]*) \}$/.exec(rule)?.[1];
  if (states !== undefined) return stateRule(states);
  const [, plain, jump, target = "", reject, other] = VERDICT.exec(rule) ?? [];
  const verdict = other ? "unknown" : reject ? "drop" : plain ?? jump ?? "";
  const matches = rule.replace(VERDICT, "").trim();
  return { match: matchAll(matches, packet), verdict: verdict as Rule["verdict"], target };
}

/** Reads `ct state vmap { established : accept, invalid : drop }`: the packet's state is new. */
function stateRule(states: string): Rule {
  const verdict = /\bnew : (accept|drop|return|jump|goto)(?: (\S+))?/.exec(states);
  const [, word = "", target = ""] = verdict ?? [];
  return { match: verdict !== null, verdict: word as Rule["verdict"], target };
}

/** A value, or values in braces, after an operator. */
const VALUE = "(!= )?(\\{ [^}]* \\}|\\S+)";

/** The matches that are understood; each function returns true if a value holds. */
const MATCHES: readonly (readonly [RegExp, (value: string, packet: Packet) => Match])[] = [
  [pattern("ct state"), (state) => state === "new" || (STATES.has(state) ? false : undefined)],
  [pattern("ct status"), (status, { isDnat }) => status === "dnat" ? isDnat : undefined],
  [pattern("(?:iif|iifname|oif|oifname)"), (link) => link === '"lo"' ? false : undefined],
  [pattern("meta nfproto"), (name, { family }) => name === `ipv${family}`],
  [pattern("(?:meta l4proto|ip protocol|ip6 nexthdr)"), (name, { protocol }) => name === protocol],
  [pattern("fib daddr type"), (type, { isDnat }) => type === "local" && !isDnat],
  [pattern("ip6? daddr"), isTo],
  [pattern("ip6? saddr"), isFrom],
  [pattern("(?:tcp|udp|sctp|th) dport"), (ports, { dport }) => inPorts(ports, dport)],
];

const STATES: ReadonlySet<string> = new Set(["established", "related", "invalid", "untracked"]);

function pattern(what: string): RegExp {
  return new RegExp(`^${what} ${VALUE}(?: |$)`);
}

/** Returns true if all matches of a rule hold. */
function matchAll(text: string, packet: Packet): Match {
  let [rest, all] = [text, true as Match];
  while (rest !== "") {
    if (!suits(rest, packet)) return false;
    const found = MATCHES.map(([pattern, holds]) => [pattern.exec(rest), holds] as const)
      .find(([match]) => match);
    const [match, holds] = found ?? [];
    if (!match || !holds) return undefined;
    const [whole, not, values = ""] = match;
    const isListed = anyOf(
      values.replaceAll(/^\{ | \}$/g, "").split(/, ?/).map((value) => holds(value, packet)),
    );
    const result = not && isListed !== undefined ? !isListed : isListed;
    if (result === false) return false;
    if (result === undefined) all = undefined;
    rest = rest.slice(whole.length);
  }
  return all;
}

/** Returns true if one match holds; `undefined` if none does, and one cannot be told. */
function anyOf(matches: readonly Match[]): Match {
  if (matches.includes(true)) return true;
  return matches.includes(undefined) ? undefined : false;
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
  if (cidr === undefined) return undefined;
  return notFrom.some((outer) => isInsideCidr(cidr, outer)) ? false : undefined;
}

function inPorts(ports: string, port: number): Match {
  const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(ports) ?? [];
  return first === undefined ? undefined : Number(first) <= port && port <= Number(last);
}
