/**
 * What a rule says, apart from how it is spelled: versions of nft print the same rule in different
 * ways, and not as it was written.
 *
 * Every word of a rule counts. Only spellings that are known to mean the same are made the same, so
 * a match or a statement that signpost does not write is never passed over.
 *
 * @module
 */
import { append } from "../../../model/values/lists.ts";
import {
  ADDRESS_BITS,
  addressToInteger,
  type Family,
  familyOf,
  integerToAddress,
  mergeCidrs,
  parseAddress,
} from "../../../model/values/address.ts";
import { PROTOCOL_NAMES } from "../script/keys.ts";

/** A text in quotes, a brace or a comma, or what stands between those and spaces. */
const TOKENS = /"(?:[^"\\]|\\.)*"|[{},]|[^\s{},]+/g;

/**
 * The words of a rule, canonical. Two rules with the same fingerprint do the same.
 *
 * The addresses of an anonymous set have no order.
 */
export function fingerprint(rule: string): string {
  const tokens: readonly string[] = rule.match(TOKENS) ?? [];
  const words: string[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at] ?? "";
    if (token !== "{") {
      append(words, isRange(token) ? members([token]) : [canonical(token, words.at(-1))]);
      continue;
    }
    const end = tokens.indexOf("}", at);
    const inside = tokens.slice(at + 1, end < 0 ? undefined : end);
    append(words, members(inside));
    at = end < 0 ? tokens.length : end;
  }
  return withoutDefaults(withoutCounts(words)).join(" ");
}

/** Returns what stands between braces, whose parts have no order. */
function members(tokens: readonly string[]): string[] {
  const parts: string[][] = [[]];
  for (const token of tokens) {
    const part = parts.at(-1) ?? [];
    if (token === ",") parts.push([]);
    else part.push(canonical(token, part.at(-1)));
  }
  const texts = parts.map((part) => part.join(" "));
  if (!texts.every(isRange)) return ["{", texts.sort().join(" , "), "}"];
  const merged = merge(texts);
  return merged.length === 1 ? merged : ["{", merged.join(" , "), "}"];
}

function canonical(word: string, before: string | undefined): string {
  if (before === "timeout") return `${milliseconds(word) ?? word}`;
  if (before === "l4proto") return PROTOCOL_NAMES[word] ?? word;
  const [, number, prefix] = /^(0x[0-9a-f]+)(?:\/(\d+))?$/.exec(word) ?? [];
  if (number !== undefined) return canonicalMark(Number(number), prefix);
  return word;
}

/** nft 1.0.6 prints a mask of leading bits as a prefix: `0x80000000/1`. */
function canonicalMark(mark: number, prefix: string | undefined): string {
  const text = `0x${mark.toString(16)}`;
  if (prefix === undefined) return text;
  const mask = (2 ** Number(prefix) - 1) * 2 ** (32 - Number(prefix));
  return `& 0x${mask.toString(16)} == ${text}`;
}

/** Leaves out the numbers of `counter packets 3 bytes 180`. */
function withoutCounts(words: readonly string[]): readonly string[] {
  const at = words.indexOf("counter");
  const isCounted = at >= 0 && words[at + 1] === "packets" && words[at + 3] === "bytes";
  return isCounted ? [...words.slice(0, at + 1), ...words.slice(at + 5)] : words;
}

/**
 * What nft adds where nothing is said: the kind of a refusal. `icmp` and `icmpv6` are the default
 * behind a match of that family only; elsewhere they would refuse one family alone.
 */
function withoutDefaults(words: readonly string[]): readonly string[] {
  const at = words.indexOf("reject");
  if (at < 0 || words[at + 1] !== "with" || words.at(-1) !== "port-unreachable") return words;
  const kind = words.slice(at + 2, -1).join(" ").replace(/ type$/, "");
  const isDefault = kind === "icmpx" || kind === "icmp" && words[0] === "ip" ||
    kind === "icmpv6" && words[0] === "ip6";
  return isDefault ? words.slice(0, at + 1) : words;
}

const UNIT_MILLISECONDS: Readonly<Record<string, number>> = {
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1_000,
  ms: 1,
};

/**
 * nft's way to write a time, such as `2h59m59s980ms`.
 *
 * @returns `undefined` where the text is no time
 */
export function milliseconds(time: string): number | undefined {
  if (!/^(?:\d+(?:ms|[dhms]))+$/.test(time)) return undefined;
  return [...time.matchAll(/(\d+)(ms|[dhms])/g)].reduce(
    (sum, [, number, unit = ""]) => sum + Number(number) * (UNIT_MILLISECONDS[unit] ?? 0),
    0,
  );
}

/** An address, a CIDR, or a range as nft prints neighbouring CIDRs: `10.0.0.0-10.0.2.255`. */
function isRange(word: string): boolean {
  const [, first = "", last, length] =
    /^([0-9a-f.:]+)(?:-([0-9a-f.:]+)|\/(\d{1,3}))?$/.exec(word) ?? [];
  if (parseAddress(first) === undefined) return false;
  if (length !== undefined) return Number(length) <= ADDRESS_BITS[familyOf(first)];
  return last === undefined ||
    parseAddress(last) !== undefined && familyOf(last) === familyOf(first);
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
