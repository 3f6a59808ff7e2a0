/** Simulates rules, as nft prints them, for one packet. A match holds, does not hold, or is unknown. */
import {
  cidrContains,
  cidrsOverlap,
  type Family,
  isEveryAddress,
  parseCidr,
} from "../model/values/address.ts";
import type { ForeignChain } from "./facts.ts";

export type BaseChain = ForeignChain & { readonly hook: NonNullable<ForeignChain["hook"]> };

/** The interface at which a packet arrives or leaves. */
export interface Link {
  /** If there are several, it is one of them. Empty: the hook has no such interface. */
  readonly names: readonly string[];
  /** True if the interface leads to one host only, such as one pod. */
  readonly isOfOneHost: boolean;
}

/** The first packet of a connection at one hook. */
export interface Packet {
  readonly family: Family;
  readonly protocol: string;
  /** The known ranges that contain the source, and ranges that do not contain it. */
  readonly source: { readonly in: readonly string[]; readonly notIn: readonly string[] };
  readonly daddr: string;
  readonly dport: number;
  /** True if the destination is an address of this node. */
  readonly isLocal: boolean;
  /** `invalid`: connection tracking has not seen the packet yet. */
  readonly state: "new" | "invalid";
  /** True after our DNAT. */
  readonly isTranslated: boolean;
  /** Absent: unknown. */
  readonly iif?: Link | undefined;
  readonly oif?: Link | undefined;
}

/** A packet mark; `undefined`: unknown. */
export type Mark = number | undefined;

/** `unlikely`, `likely`: unknown, with a guess. `one-host`: holds because the rule is about one host, such as one pod. */
type MatchResult = boolean | "unlikely" | "likely" | "one-host";

/** The order of matches. Of a rule's matches the lowest decides, of a list of values the highest. */
const ORDER: readonly MatchResult[] = [false, "unlikely", "one-host", "likely", true];

const NEGATED = new Map<MatchResult, MatchResult>([
  [false, true],
  ["unlikely", "likely"],
  ["one-host", "unlikely"],
  ["likely", "unlikely"],
  [true, false],
]);

type Test = (packet: Packet, mark: Mark) => MatchResult;

interface Rule {
  readonly tests: readonly Test[];
  /** Returns the mark that the rule sets. */
  readonly setMark: ((mark: Mark) => Mark) | undefined;
  /** `""`: the rule has none. `either`: it is not known. */
  readonly verdict: "" | "accept" | "drop" | "return" | "jump" | "goto" | "either" | "dnat";
  /** The chain, or the destination of `dnat`; `""`: it is in a map or an extension. */
  readonly target: string;
}

/** The ways in which a packet may leave a chain, with its possible marks. */
interface Exits {
  readonly accepts: Set<Mark>;
  /** The marks with which it reaches the end or a `return`. */
  readonly ends: Set<Mark>;
  drops: boolean;
  translation?: Translation | undefined;
}

/** The rule that gives a packet another destination. */
interface Translation {
  readonly chain: string;
  /** `""`: it is in a map or an extension. */
  readonly to: string;
}

interface ChainOutcome {
  readonly verdict: "accepts" | "may drop" | "drops";
  readonly mark: Mark;
}

interface Walk {
  readonly packet: Packet;
  readonly mark: Mark;
  /** True if the guess decides each unknown match. */
  readonly isGuess: boolean;
  readonly budget: { left: number };
  readonly depth: number;
}

/** The most rules that are followed for one packet in one base chain. */
const MOST_RULES = 10_000;

/** The kernel's limit of jumps. */
const MOST_JUMPS = 16;

/** Follows packets through the chains of all tables, and parses each chain once. */
export class PacketWalk {
  readonly #chains: ReadonlyMap<string, ForeignChain>;
  /** By table and chain. */
  readonly #parsed = new Map<string, readonly Rule[]>();

  constructor(chains: readonly ForeignChain[]) {
    this.#chains = new Map(chains.map((each) => [`${each.table} ${each.name}`, each]));
  }

  /** Returns the verdict of a base chain: `drops` only if every rule that may accept the packet is understood. */
  through(
    base: BaseChain,
    { packet, mark }: { readonly packet: Packet; readonly mark: Mark },
  ): ChainOutcome {
    const dropsAtEnd = base.hook.policy === "drop";
    const run = (isGuess: boolean) =>
      this.#follow(base, { packet, mark, isGuess, budget: { left: MOST_RULES }, depth: 0 });
    const { accepts, ends } = run(false);
    const after = only([...accepts, ...dropsAtEnd ? [] : ends]);
    if (accepts.size === 0 && (dropsAtEnd || ends.size === 0)) {
      return { verdict: "drops", mark: after };
    }
    const guess = run(true);
    const isLikely = guess.drops || guess.ends.size > 0 && dropsAtEnd;
    return { verdict: isLikely ? "may drop" : "accepts", mark: after };
  }

  /** Returns the first rule of a nat chain that sends the packet elsewhere, among the rules that are understood. */
  translation(base: BaseChain, packet: Packet): Translation | undefined {
    const walk = { packet, mark: 0, isGuess: true, budget: { left: MOST_RULES }, depth: 0 };
    return this.#follow(base, walk).translation;
  }

  #follow({ table, name }: Pick<ForeignChain, "table" | "name">, walk: Walk): Exits {
    const exits: Exits = { accepts: new Set(), ends: new Set(), drops: false };
    const { packet, isGuess, budget, depth } = walk;
    let { mark } = walk;
    for (const { tests, setMark, verdict, target } of this.#rulesOf(`${table} ${name}`)) {
      const match = lowest(tests, { packet, mark });
      if (isGuess && verdict === "dnat" && match !== false && match !== "unlikely") {
        return { ...exits, translation: { chain: name, to: target } };
      }
      const isUndecided = isGuess && match === "one-host" && verdict !== "";
      if (budget.left-- <= 0 || depth > MOST_JUMPS || isUndecided) {
        exits.accepts.add(undefined);
        return exits;
      }
      const isMet = match === true || isGuess && match === "likely";
      if (!isMet && (isGuess || match === false)) continue;
      if (setMark) mark = only(isMet ? [setMark(mark)] : [mark, setMark(mark)]);
      if (verdict === "accept" || verdict === "either") exits.accepts.add(mark);
      if (verdict === "return") exits.ends.add(mark);
      if (verdict === "drop" || verdict === "either" && !isGuess) exits.drops = true;
      if (verdict === "jump" || verdict === "goto") {
        const inner = this.#follow({ table, name: target }, { ...walk, mark, depth: depth + 1 });
        for (const each of inner.accepts) exits.accepts.add(each);
        exits.drops ||= inner.drops;
        if (inner.translation) return { ...exits, translation: inner.translation };
        if (verdict === "jump" && inner.ends.size > 0) {
          mark = only(isMet ? inner.ends : [mark, ...inner.ends]);
          continue;
        }
        for (const each of inner.ends) exits.ends.add(each);
      }
      if (isMet && verdict !== "" && (verdict !== "either" || isGuess)) return exits;
    }
    exits.ends.add(mark);
    return exits;
  }

  #rulesOf(key: string): readonly Rule[] {
    return this.#parsed.getOrInsertComputed(
      key,
      () => this.#chains.get(key)?.rules.flatMap(parseRule) ?? [],
    );
  }
}

/** Returns the mark if all marks are the same, else `undefined`. */
function only(marks: Iterable<Mark>): Mark {
  const [first, ...others] = new Set(marks);
  return others.length === 0 ? first : undefined;
}

/** Returns the lowest result of tests. Tests after a false one are not run: there may be thousands of rules. */
function lowest(tests: readonly Test[], { packet, mark }: Pick<Walk, "packet" | "mark">) {
  let rank = ORDER.length - 1;
  for (const test of tests) {
    rank = Math.min(rank, ORDER.indexOf(test(packet, mark)));
    if (rank === 0) break;
  }
  return ORDER[rank] ?? true;
}

/** Statements without a match or a verdict. */
const STATEMENTS =
  /(?<=^| )(?:counter packets \d+ bytes \d+|counter(?: name)? "[^"]*"|counter|log(?: prefix "[^"]*")?(?: (?:level|flags|group|snaplen) \S+)*|comment "[^"]*"|ct mark set \S+|(?:flow add|flow offload) \S+)(?= |$)/g;

const VERDICT =
  /(?:^| )(?:(accept|drop|return)|(reject)(?: with .*)?|(jump|goto) (\S+)|(queue.*|fwd .*)|(vmap @\S+)|(?:dnat (?:ip6? )?to |xt target "DNAT")(.*))$/;

const SET_MARK = /(?:^| )meta mark set ((?:(?:meta|ct) )?\S+(?: (?:[|&^]|and|or|xor) \S+)*)(?= |$)/;

/** Parses a rule. A map of verdicts becomes a rule for each of its elements. */
function parseRule(rule: string): Rule[] {
  const text = rule.replaceAll(STATEMENTS, "").replaceAll(/ +/g, " ").trim();
  const [, head, elements] = /^(.*) vmap \{ (.*) \}$/.exec(text) ?? [];
  const [, before, key, destinations] =
    /^(.*?)dnat (?:ip6? )?to (\w+ dport) map \{ (.*) \}$/.exec(text) ?? [];
  const each = elements ?? destinations;
  if (each !== undefined) {
    const [start, verdict] = key === undefined
      ? [`${head} `, " "]
      : [`${before}${key} `, " dnat to "];
    return each.split(", ").flatMap((element) =>
      parseRule(start + element.replace(" : ", verdict))
    );
  }
  const value = SET_MARK.exec(text)?.[1];
  const rest = text.replace(SET_MARK, "").trim();
  const [, plain, reject, jump, chain, given, map, destination] = VERDICT.exec(rest) ?? [];
  const verdict = plain ?? (reject && "drop") ?? jump ?? (given && "accept") ??
    (map && "either") ?? (destination === undefined ? "" : "dnat");
  const tests = parseTests(rest.replace(VERDICT, "").trim());
  return [{
    // The last test is the key of the map.
    tests: map ? tests.slice(0, -1) : tests,
    setMark: value === undefined ? undefined : (mark) => evaluate(value, mark),
    verdict: verdict as Rule["verdict"],
    target: chain ?? /^\[?[\da-f][\da-f.:\]]*/.exec(destination ?? "")?.[0] ?? "",
  }];
}

/** Evaluates a mark such as `0x1` or `meta mark & 0xfffeffff ^ 0x10000`. */
function evaluate(value: string, mark: Mark): Mark {
  const [first = "", ...rest] = value.replace(/^meta mark\b/, "mark").split(" ");
  let result = first === "mark" ? mark : numberOf(first);
  while (rest.length > 0) {
    const [operator = "", operand] = rest.splice(0, 2);
    const number = numberOf(operand);
    if (result === undefined || number === undefined) return undefined;
    const isAnd = operator === "&" || operator === "and";
    const isOr = operator === "|" || operator === "or";
    result = (isAnd ? result & number : isOr ? result | number : result ^ number) >>> 0;
  }
  return result;
}

function numberOf(text = ""): number | undefined {
  return /^(?:0x[0-9a-f]+|\d+)$/.test(text) ? Number(text) : undefined;
}

/** Ports that clients choose by default (`net.ipv4.ip_local_port_range`). */
const CLIENT_PORTS = [32_768, 60_999] as const;

const OTHER_STATES: ReadonlySet<string> = new Set(["established", "related", "untracked"]);

/** The matches that are understood. Each function parses a value, and returns its test. */
const MATCHES: readonly (readonly [RegExp, (value: string) => Test])[] = [
  [
    pattern("ct state"),
    (value) => ({ state }) =>
      value === state ||
      (OTHER_STATES.has(value) || value === "new" || value === "invalid" ? false : "unlikely"),
  ],
  [
    pattern("ct status"),
    (value) => ({ isTranslated }) =>
      value === "dnat" ? isTranslated : value === "snat" ? false : "unlikely",
  ],
  [pattern("ct direction"), (value) => () => value === "original"],
  [pattern("(?:iif|iifname)"), linkTest((packet) => packet.iif)],
  [pattern("(?:oif|oifname)"), linkTest((packet) => packet.oif)],
  [pattern("meta nfproto"), (name) => ({ family }) => name === `ipv${family}`],
  [pattern("meta protocol"), (name) => ({ family }) => name === (family === 6 ? "ip6" : "ip")],
  [
    pattern("(?:meta l4proto|ip protocol|ip6 nexthdr)"),
    (name) => ({ protocol }) => name === protocol,
  ],
  [pattern("fib daddr type"), (type) => ({ isLocal }) => type === (isLocal ? "local" : "unicast")],
  [pattern("meta pkttype"), (type) => () => type === "host" || type === "unicast"],
  // An extension of iptables. Its options are not printed.
  [pattern("xt match"), () => unknown],
  [pattern("ip6? daddr"), destinationTest],
  [pattern("ip6? saddr"), sourceTest],
  [pattern("(?:tcp|udp|sctp|th) dport"), (ports) => ({ dport }) => covers(ports, [dport, dport])],
  [pattern("(?:tcp|udp|sctp|th) sport"), (ports) => () => covers(ports, CLIENT_PORTS)],
];

/** Matches an expression with a value, or values in braces, after an operator. */
function pattern(what: string): RegExp {
  return new RegExp(`^${what} (!= )?(\\{ [^}]* \\}|\\S+)(?: |$)`);
}

const MARK = /^(?:meta )?mark (?:(?:&|and) (\S+) )?(?:(==|!=) )?(0x[0-9a-f]+|\d+)(?: |$)/;

/** Matches a limit, which one packet does not exceed. */
const RATE = /^limit rate (over )?\S+(?: burst \d+ \S+)?(?: |$)/;

/** Parses the matches of a rule. After an unknown match, the rest of the rule is unknown. */
function parseTests(text: string): Test[] {
  const tests: Test[] = [];
  let rest = text;
  while (rest !== "") {
    const [word = ""] = rest.split(" ");
    tests.push((packet) => isAbout(word, packet));
    const { whole, test } = firstTest(rest);
    tests.push(test);
    rest = rest.slice(whole.length);
  }
  return tests;
}

function firstTest(text: string): { readonly whole: string; readonly test: Test } {
  const [marked, mask = "0xffffffff", operator, wanted] = MARK.exec(text) ?? [];
  if (marked !== undefined) {
    const test: Test = (_packet, mark) => {
      const masked = evaluate(`mark & ${mask}`, mark);
      return masked === undefined
        ? "unlikely"
        : (masked === numberOf(wanted)) === (operator !== "!=");
    };
    return { whole: marked, test };
  }
  const [limit, over] = RATE.exec(text) ?? [];
  if (limit !== undefined) return { whole: limit, test: () => over === undefined };
  const [known, holds] = MATCHES.find(([known]) => known.test(text)) ?? [];
  const [whole, not, list = ""] = known?.exec(text) ?? [];
  // A dot joins expressions to one key.
  if (whole === undefined || !holds || list === ".") return { whole: text, test: unknown };
  const values = list.replaceAll(/^\{ | \}$/g, "").split(/, ?/);
  // The elements of a named set are not read.
  const tests = values.map((value) => value.startsWith("@") ? unknown : holds(value));
  const test: Test = (packet, mark) => {
    const each = new Set(tests.map((test) => test(packet, mark)));
    const any = ORDER.findLast((match) => each.has(match)) ?? false;
    return not === undefined ? any : NEGATED.get(any) ?? false;
  };
  return { whole, test };
}

function unknown(): MatchResult {
  return "unlikely";
}

/** Returns false for a match of another protocol or IP family than the packet's. */
function isAbout(word: string, { family, protocol }: Packet): boolean {
  if (word === "ip" || word === "icmp") return family === 4 && word === "ip";
  if (word === "ip6" || word === "icmpv6") return family === 6 && word === "ip6";
  return !["tcp", "udp", "sctp"].includes(word) || word === protocol;
}

/** Compares with a name in quotes, which may end in `*`. */
function linkTest(linkOf: (packet: Packet) => Link | undefined): (quoted: string) => Test {
  return (quoted) => {
    const name = quoted.replaceAll('"', "");
    const fits = (each: string) =>
      name.endsWith("*") ? each.startsWith(name.slice(0, -1)) : each === name;
    return (packet) => {
      const link = linkOf(packet);
      if (!link) return name === "lo" ? false : "unlikely";
      if (!link.names.some(fits)) return false;
      if (!link.names.every(fits)) return link.isOfOneHost ? "one-host" : "unlikely";
      return link.isOfOneHost && !name.endsWith("*") ? "one-host" : true;
    };
  };
}

function cidrOf(range: string): string | undefined {
  return parseCidr(isAddress(range) ? `${range}/${range.includes(":") ? 128 : 32}` : range);
}

function isAddress(range: string): boolean {
  return !range.includes("/");
}

function destinationTest(range: string): Test {
  const cidr = cidrOf(range);
  if (cidr === undefined) return unknown;
  return ({ daddr, isLocal }) => {
    if (!cidrContains(cidr, daddr)) return false;
    return isAddress(range) && !isLocal ? "one-host" : true;
  };
}

function sourceTest(range: string): Test {
  const cidr = cidrOf(range);
  if (cidr === undefined) return unknown;
  const isEvery = isEveryAddress(cidr);
  return ({ source, family, daddr }) => {
    // The rules for hairpins match packets to their own sender, and samples are not such packets.
    if (range === daddr) return false;
    if (cidr.includes(":") !== (family === 6)) return "unlikely";
    if (isEvery) return true;
    if (source.notIn.some((outer) => cidrContains(outer, cidr))) return false;
    if (source.in.length === 0) return "unlikely";
    if (source.in.every((each) => cidrContains(cidr, each))) return true;
    return source.in.some((each) => cidrsOverlap(cidr, each)) ? "unlikely" : false;
  };
}

/** Returns true if ports, such as `22` or `1000-2000`, contain a whole range, false if they contain nothing of it. */
function covers(ports: string, [low, high]: readonly [number, number]): MatchResult {
  const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(ports) ?? [];
  if (first === undefined) return "unlikely";
  if (Number(first) <= low && high <= Number(last)) return true;
  return high < Number(first) || Number(last) < low ? false : "unlikely";
}
