/**
 * Makes rules comparable that versions of nft print in different ways. Every word counts. Only spellings that are known
 * to mean the same are made the same.
 */
import { append } from "../../model/values/lists.ts";
import {
  ADDRESS_BITS,
  addressToInteger,
  familyOf,
  parseAddress,
} from "../../model/values/address.ts";
import { PROTOCOL_NAMES } from "./sets.ts";
import { milliseconds } from "./text.ts";

/** Matches a text in quotes, a brace, a comma, or a word. */
const TOKENS = /"(?:[^"\\]|\\.)*"|[{},]|[^\s{},]+/g;

/** Returns the words of a rule, canonical. Two rules with the same fingerprint do the same. */
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

/** Returns a mark with its mask, which nft 1.0.6 prints as a prefix if it is of leading bits: `0x80000000/1`. */
function canonicalMark(mark: number, prefix: string | undefined): string {
  const text = `0x${mark.toString(16)}`;
  if (prefix === undefined) return text;
  const mask = (2 ** Number(prefix) - 1) * 2 ** (32 - Number(prefix));
  return `& 0x${mask.toString(16)} == ${text}`;
}

function withoutCounts(words: readonly string[]): readonly string[] {
  const at = words.indexOf("counter");
  const isCounted = at >= 0 && words[at + 1] === "packets" && words[at + 3] === "bytes";
  return isCounted ? [...words.slice(0, at + 1), ...words.slice(at + 5)] : words;
}

/**
 * Leaves out the default kind of a refusal, which nft adds. `icmp` and `icmpv6` are the default only behind a match of
 * their family. Elsewhere they refuse one family alone.
 */
function withoutDefaults(words: readonly string[]): readonly string[] {
  const at = words.indexOf("reject");
  if (at < 0 || words[at + 1] !== "with" || words.at(-1) !== "port-unreachable") return words;
  const kind = words.slice(at + 2, -1).join(" ").replace(/ type$/, "");
  const isDefault = kind === "icmpx" || kind === "icmp" && words[0] === "ip" ||
    kind === "icmpv6" && words[0] === "ip6";
  return isDefault ? words.slice(0, at + 1) : words;
}

/** Returns true for an address, a CIDR, or neighbouring CIDRs as nft prints them: `10.0.0.0-10.0.2.255`. */
function isRange(word: string): boolean {
  const [, first = "", last, length] =
    /^([0-9a-f.:]+)(?:-([0-9a-f.:]+)|\/(\d{1,3}))?$/.exec(word) ?? [];
  if (parseAddress(first) === undefined) return false;
  if (length !== undefined) return Number(length) <= ADDRESS_BITS[familyOf(first)];
  return last === undefined ||
    parseAddress(last) !== undefined && familyOf(last) === familyOf(first);
}

/** Returns the bounds of merged ranges: nft joins neighbours. */
function merge(ranges: readonly string[]): string[] {
  const merged: { readonly first: bigint; last: bigint }[] = [];
  for (const range of ranges.map(boundsOf).sort((a, b) => a.first < b.first ? -1 : 1)) {
    const before = merged.at(-1);
    if (before === undefined || range.first > before.last + 1n) merged.push(range);
    else if (range.last > before.last) before.last = range.last;
  }
  return merged.map(({ first, last }) => `${first}-${last}`);
}

function boundsOf(range: string): { readonly first: bigint; readonly last: bigint } {
  const [address = "", end = address] = range.split("-");
  const [base = "", length] = address.split("/");
  if (length === undefined) return { first: addressToInteger(base), last: addressToInteger(end) };
  const size = 1n << BigInt(ADDRESS_BITS[familyOf(base)] - Number(length));
  const first = addressToInteger(base) / size * size;
  return { first, last: first + size - 1n };
}
