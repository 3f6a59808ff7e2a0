/**
 * What a rule does, apart from how it is spelled: versions of nft print the same rule in different
 * ways, and not as it was written.
 *
 * @module
 */
import {
  ADDRESS_BITS,
  addressToInteger,
  type Family,
  familyOf,
  integerToAddress,
  mergeCidrs,
  parseAddress,
} from "../../../model/address.ts";

/** Where a rule looks or leads: sets, chains, interfaces, marks, times, addresses, verdicts. */
const WORDS =
  /@\S+|(?:jump|goto) [^\s,}]+|"[^"]*"|0x[0-9a-f]+|timeout \S+|mod \d+|!=|\b(?:drop|reject|accept|return|masquerade|fully-random|dnat|saddr|daddr|local|new|set|update|meta l4proto (?:tcp|udp|sctp|\d+) )\b|[0-9a-f]*[.:][0-9a-f:.[\]/-]*[0-9a-f\]]/g;

/**
 * The words of a rule that matter, canonical. Two rules of signpost with the same fingerprint do
 * the same; a rule that was put in by hand has another one, or is one too many.
 *
 * The choices of an anonymous map and the addresses of an anonymous set have no order.
 */
export function fingerprint(rule: string): string {
  const [before = "", inside, after = ""] = /^(.*?)\{(.*)\}(.*)$/.exec(rule)?.slice(1) ?? [rule];
  if (inside === undefined) return words(before).map(canonical).join(" ");
  const members = words(inside).map(canonical);
  return [
    ...words(before).map(canonical),
    ...members.every(isRange) ? merge(members) : members.sort(),
    ...words(after).map(canonical),
  ].join(" ");
}

function words(text: string): string[] {
  return [...text.matchAll(WORDS)].map(([word]) => word.trim());
}

const PROTOCOLS: Readonly<Record<string, string>> = { "6": "tcp", "17": "udp", "132": "sctp" };

function canonical(word: string): string {
  if (word.startsWith("0x")) return `0x${Number(word).toString(16)}`;
  if (word.startsWith("timeout ")) return `timeout ${seconds(word.slice("timeout ".length))}`;
  if (word.startsWith("meta l4proto ")) {
    const name = word.slice("meta l4proto ".length);
    return PROTOCOLS[name] ?? name;
  }
  return isRange(word) ? merge([word]).join(" ") : word;
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { d: 86_400, h: 3_600, m: 60, s: 1 };

function seconds(time: string): number {
  return [...time.matchAll(/(\d+)([dhms])/g)]
    .reduce((sum, [, number, unit = ""]) => sum + Number(number) * (UNIT_SECONDS[unit] ?? 0), 0);
}

/** An address, a CIDR, or a range as nft prints neighbouring CIDRs: `10.0.0.0-10.0.2.255`. */
function isRange(word: string): boolean {
  const [first = "", ...others] = word.split(/[/-]/);
  return others.length <= 1 && parseAddress(first) !== undefined;
}

function merge(ranges: readonly string[]): string[] {
  return mergeCidrs(ranges.flatMap(cidrsOf));
}

function cidrsOf(range: string): string[] {
  const [first = "", last] = range.split("-");
  if (last !== undefined) return between(familyOf(first), addressToInteger(first), last);
  return [range.includes("/") ? range : `${range}/${ADDRESS_BITS[familyOf(range)]}`];
}

/** The CIDRs that cover everything from one address to another. */
function between(family: Family, start: bigint, last: string): string[] {
  const end = addressToInteger(last);
  const cidrs: string[] = [];
  for (let base = start; base <= end;) {
    let bits = 0n;
    while (
      bits < BigInt(ADDRESS_BITS[family]) && base % (2n << bits) === 0n &&
      base + (2n << bits) - 1n <= end
    ) bits += 1n;
    cidrs.push(`${integerToAddress(family, base)}/${ADDRESS_BITS[family] - Number(bits)}`);
    base += 1n << bits;
  }
  return cidrs;
}
