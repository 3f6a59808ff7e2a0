/**
 * Works out what a base chain of another program does with a packet, as far as its rules are understood.
 *
 * @module
 */
import { cidrContains, type Family, isInsideCidr, parseCidr } from "../model/values/address.ts";
import type { ForeignChain } from "./facts.ts";

/** The first packet of a connection from outside the cluster. */
export interface Packet {
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
export type Fate = "accept" | "drop" | "unknown";

/** What the rest of a chain does; `continue`: its end is reached. */
type Outcome = Fate | "continue";

/** Rules that are followed for one packet. */
const MOST_RULES = 10_000;

/** Returns what a base chain does with a packet. */
export function fateOf(
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

/** `ct state vmap { established : accept, invalid : drop }`: the packet's state is new. */
function stateRule(states: string): Rule {
  const verdict = /\bnew : (accept|drop|return|jump|goto)(?: (\S+))?/.exec(states);
  const [, word = "", target = ""] = verdict ?? [];
  return { match: verdict !== null, verdict: word as Rule["verdict"], target };
}

/** A value, or values in braces, after an operator. */
const VALUE = "(!= )?(\\{ [^}]* \\}|\\S+)";

/** What is understood of a rule; each gives whether a value holds. */
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

/** Returns whether all matches of a rule hold. */
function matchAll(text: string, packet: Packet): Match {
  let [rest, all] = [text, true as Match];
  while (rest !== "") {
    if (!suits(rest, packet)) return false;
    const found = MATCHES.map(([pattern, holds]) => [pattern.exec(rest), holds] as const)
      .find(([match]) => match);
    const [match, holds] = found ?? [];
    if (!match || !holds) return undefined;
    const [whole, not, values = ""] = match;
    const each = values.replaceAll(/^\{ | \}$/g, "").split(/, ?/).map((value) =>
      holds(value, packet)
    );
    const any = each.includes(true) ? true : each.includes(undefined) ? undefined : false;
    const result = not && any !== undefined ? !any : any;
    if (result === false) return false;
    if (result === undefined) all = undefined;
    rest = rest.slice(whole.length);
  }
  return all;
}

/** Returns whether a match is about the packet's protocol and IP family. */
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
