/**
 * What the declarations of sets and base chains say, apart from how versions of nft spell them.
 *
 * @module
 */
import { milliseconds } from "./fingerprint.ts";

/** What the kernel gives a set that rules fill, where its declaration names no size. */
const DYNAMIC_SIZE = "size 65535";

/**
 * The declaration of a set, map or flowtable without its elements or devices, canonical: `map; flags interval; type …`.
 *
 * @param kind `set`, `map` or `flowtable`
 * @param statements such as `typeof ip daddr` and `flags interval`, in any order
 */
export function canonicalDeclaration(kind: string, statements: readonly string[]): string {
  const all = statements.filter((each) => !each.startsWith("devices = "))
    .map(canonicalStatement);
  const isDynamic = all.some((each) => /^flags .*\bdynamic\b/.test(each));
  if (isDynamic && !all.some((each) => each.startsWith("size "))) all.push(DYNAMIC_SIZE);
  return [kind, ...all.sort()].join("; ");
}

function canonicalStatement(statement: string): string {
  const [, word = "", rest = ""] = /^(\S+) ?(.*)$/.exec(statement) ?? [];
  switch (word) {
    case "type":
    case "typeof":
      return `type ${rest.split(/( \. | : )/).map((each) => TYPES[each] ?? each).join("")}`;
    case "flags":
      return `flags ${rest.split(/, ?/).sort().join(",")}`;
    case "hook":
      return statement.replace(/(?<=priority ).*/, (text) => `${priorityNumber(text)}`);
    case "timeout":
    case "gc-interval":
      return `${word} ${milliseconds(rest) ?? rest}`;
    default:
      return statement;
  }
}

/** The types of the expressions that declarations name: some versions of nft print these. */
const TYPES: Readonly<Record<string, string>> = {
  "ip saddr": "ipv4_addr",
  "ip daddr": "ipv4_addr",
  "ip6 saddr": "ipv6_addr",
  "ip6 daddr": "ipv6_addr",
  "meta l4proto": "inet_proto",
  "meta mark": "mark",
  "tcp dport": "inet_service",
  "udp dport": "inet_service",
  "sctp dport": "inet_service",
  "numgen random mod 2": "integer",
};

/** nft prints priorities as numbers or by these names, with what is added or taken away. */
const PRIORITIES: Readonly<Record<string, number>> = {
  raw: -300,
  mangle: -150,
  dstnat: -100,
  filter: 0,
  security: 50,
  srcnat: 100,
};

const HOOK = /^(type .*) priority ([^;]*);(?: policy (\w+);)?(.*)$/;

/**
 * A base chain's hook as if it were a rule: `type nat hook output priority -100 policy accept`.
 *
 * @param line as nft prints it
 * @returns `undefined` where the line is no hook
 */
export function parseHook(line: string): string | undefined {
  const [, type = "", priority = "", policy = "accept", rest = ""] = HOOK.exec(line) ?? [];
  if (type === "") return undefined;
  return `${hookRule(`${type} priority ${priorityNumber(priority)}`, policy)}${rest}`;
}

/** A base chain's hook as if it were a rule. */
export function hookRule(hook: string, policy: string): string {
  return `${hook} policy ${policy}`;
}

function priorityNumber(text: string): number | string {
  const [, name, number, sign, offset] =
    /^(?:([a-z]+)|(-?\d+))(?: ([+-]) (\d+))?$/.exec(text.trim()) ?? [];
  const base = name === undefined ? Number(number) : PRIORITIES[name];
  if (base === undefined || Number.isNaN(base)) return text;
  return base + Number(offset ?? 0) * (sign === "-" ? -1 : 1);
}
