/** Compares the desired contents of the table with the kernel's, and makes the change that removes differences. */
import { append } from "../../model/values/lists.ts";
import { compareRules, type Difference, difference } from "../../model/kernel/differences.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import { type Contents, elementKey, type Elements, type ElementText, EXPIRING } from "./read.ts";
import { COUNTER, parseKey, printKey, PROTOCOL_NAMES, setNamed, type TableSet } from "./sets.ts";
import { type Chain, element, elementsOf, TABLE, type Table } from "./table.ts";
import {
  ADDRESS_BITS,
  addressToInteger,
  familyOf,
  parseAddress,
} from "../../model/values/address.ts";
import { milliseconds } from "./text.ts";
import { type Delta, NOTHING } from "./delta.ts";

/** Returns the differences of `comparing`, but an endpoint may have any slot of its frontend. */
export function compareContents(desired: Contents, held: Contents): Difference[] {
  const sets = [...desired.sets].map(([name, wanted]) => {
    const [set, there] = [setNamed(name), held.sets.get(name)];
    const isMoved = set?.keyType === "slot" && there !== undefined;
    return [name, isMoved ? moveToHeldSlots(there, wanted, set) : wanted] as const;
  });
  return atOnce(comparing({ ...desired, sets: new Map(sets) }, held));
}

/** Returns all differences, but for clients of session affinity and marks of transactions. */
export function* comparing(
  desired: Contents,
  held: Contents,
): Generator<undefined, Difference[]> {
  const differences: Difference[] = [];
  for (const name of new Set([...desired.chains.keys(), ...held.chains.keys()])) {
    // The fingerprints of rules take time.
    yield;
    const place = chainPlace(name);
    const [wanted, there] = [desired.chains.get(name), held.chains.get(name)];
    if (!wanted || !there) differences.push(difference(wanted ? "missing" : "extra", place));
    else append(differences, compareRules(wanted, there, { place, keyOf: fingerprint }));
  }
  for (const name of new Set([...desired.sets.keys(), ...held.sets.keys()])) {
    append(differences, yield* compareSet(name, desired, held));
  }
  return [...compareTable(desired, held), ...differences.sort(byPlace)];
}

function compareTable(desired: Contents, held: Contents): Difference[] {
  const extra = held.others.filter((other) => !desired.others.includes(other));
  return [
    ...held.flags === desired.flags
      ? []
      : [difference("wrong", TABLE_PLACE, { key: "flags", held: held.flags })],
    ...extra.map((key) => difference("extra", TABLE_PLACE, { key })),
  ];
}

function byPlace(a: Difference, b: Difference): number {
  const [left, right] = a.in === b.in ? [a.key, b.key] : [a.in, b.in];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Returns true if the kernel itself adds a set's elements, and removes them after a time. */
export function isFilledByKernel(set: string): boolean {
  return setNamed(set)?.filledBy === "kernel";
}

/** Returns the frontend of a slot; any other key unchanged. */
export function frontendIn(set: TableSet, text: string): string {
  const key = parseKey(set, text);
  return key?.type === "slot" ? printKey(key.frontend) : text;
}

/** Matches the counter of an element, in a set that counts. */
const COUNTS = /^counter packets \d+ bytes \d+ ?/;

/** Moves wanted endpoints to the slots that they have: the choice stays the same, unless a hash chooses. */
function moveToHeldSlots(there: Elements, wanted: Elements, set: TableSet): Elements {
  const moved = new Map<string, ElementText>();
  const frontends = Map.groupBy(wanted, ([text]) => frontendIn(set, text));
  for (const slots of frontends.values()) {
    const rest = new Set(slots.map(([, { data }]) => data));
    const isHashed = rest.size < slots.length;
    const stays = slots.map(([text]) => {
      const data = there.get(text)?.data ?? "";
      return rest.delete(data) ? data : undefined;
    });
    const left = [...rest];
    for (const [i, [text, element]] of slots.entries()) {
      const data = stays[i] ?? left.shift() ?? "";
      moved.set(text, isHashed ? element : { data, remark: "" });
    }
  }
  return moved;
}

function* compareSet(
  name: string,
  desired: Contents,
  held: Contents,
): Generator<undefined, Difference[]> {
  const [wanted, there] = [desired.sets.get(name), held.sets.get(name)];
  if (!wanted || !there) return [difference(wanted ? "missing" : "extra", name)];
  const differences: Difference[] = [];
  const [before = "", after = ""] = [held, desired].map((each) => each.declarations.get(name));
  if (before !== after) {
    differences.push(difference("wrong", name, { desired: after, held: before }));
  }
  const counts = after.split("; ").includes(COUNTER);
  const expires = isFilledByKernel(name);
  for (const [key, { data, remark }] of there) {
    yield;
    // Another program added an element that does not expire.
    if (expires && EXPIRING.test(remark)) continue;
    const element = wanted.get(key);
    const left = counts ? remark.replace(COUNTS, "") : remark;
    if (!element) differences.push(difference("extra", name, { key, held: data }));
    else if (element.data !== data) {
      differences.push(difference("wrong", name, { key, desired: element.data, held: data }));
    } else if (element.remark !== left) {
      const text = (remark: string) => `${data} ${remark}`.trim();
      const values = { key, desired: text(element.remark), held: text(left) };
      differences.push(difference("wrong", name, values));
    }
  }
  for (const [key, { data }] of wanted) {
    yield;
    if (!there.has(key)) differences.push(difference("missing", name, { key, desired: data }));
  }
  return differences;
}

interface Place {
  readonly type: "table" | "chain" | "set";
  readonly name: string;
}

export const TABLE_PLACE = `table ${TABLE}`;

const CHAIN = "chain ";

export function chainPlace(name: string): string {
  return CHAIN + name;
}

/** Parses `in` of a difference. Names do not have spaces. */
export function parsePlace(text: string): Place {
  if (text === TABLE_PLACE) return { type: "table", name: "" };
  return text.startsWith(CHAIN)
    ? { type: "chain", name: text.slice(CHAIN.length) }
    : { type: "set", name: text };
}

/** Matches a text in quotes, a brace, a comma, or a word. */
const TOKENS = /"(?:[^"\\]|\\.)*"|[{},]|[^\s{},]+/g;

/**
 * Returns the words of a rule in one spelling, because versions of nft print a rule in different ways. Only spellings
 * that are known to mean the same become equal. So two rules with the same fingerprint do the same.
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

/** Returns the parts between braces, sorted: their order does not matter. */
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

/** Returns a mark with its mask. nft 1.0.6 prints a mask of leading bits as a prefix: `0x80000000/1`. */
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

interface MendOptions {
  readonly desired: Omit<Table, "references">;
  readonly held: Contents;
  /** From `comparing`, which compares each slot. */
  readonly differences: readonly Difference[];
}

/** Returns the change that removes the differences; `undefined` if only a new table does. Only chains are rewritten. */
export function mend({ desired, held, differences }: MendOptions): Delta | undefined {
  const chains = new Map(desired.chains.map((each) => [each.name, each]));
  const parts: Partial<Delta>[] = [];
  for (const [text, all] of Map.groupBy(differences, (each) => each.in)) {
    const { type, name } = parsePlace(text);
    if (!PLAIN_NAME.test(name)) return undefined;
    const part = type === "chain"
      ? mendChain({ name, wanted: chains.get(name) }, all)
      : mendSet({ name, kind: kindOf(held.declarations.get(name) ?? "") }, all);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  const lacking = new Set(
    differences.flatMap(({ type, in: place, key }) => type === "extra" ? [] : [`${place} ${key}`]),
  );
  const isNew = (set: string) => lacking.has(`${set} `);
  const different = new Set(differences.map((each) => each.in));
  const near = desired.elements.filter(({ set }) => different.has(set.name));
  return {
    ...NOTHING,
    addSets: desired.sets.filter(({ name }) => isNew(name)),
    addChains: parts.flatMap((each) => each.addChains ?? []),
    rewriteChains: parts.flatMap((each) => each.rewriteChains ?? []),
    deleteElements: parts.flatMap((each) => each.deleteElements ?? []),
    addElements: [...elementsOf(near)].filter((element) =>
      isNew(element.set.name) || lacking.has(`${element.set.name} ${elementKey(element)}`)
    ),
    deleteChains: parts.flatMap((each) => each.deleteChains ?? []),
    deleteSets: parts.flatMap((each) => each.deleteSets ?? []),
  };
}

/** Other programs choose these names, which become parts of commands. */
const PLAIN_NAME = /^[A-Za-z_][\w./-]*$/;
const PLAIN_KEY = /^[\w.:/]+(?:(?: \. |-)[\w.:/]+)*$/;

function mendChain(
  { name, wanted }: { readonly name: string; readonly wanted: Chain | undefined },
  all: readonly Difference[],
): Partial<Delta> | undefined {
  if (wanted === undefined) return { deleteChains: [{ name }] };
  if (all.some(({ type, key }) => type === "missing" && key === "")) return { addChains: [wanted] };
  const { hook, ...unhooked } = wanted;
  const hasOtherHook = all.some(({ key }) => /^type \S+ hook /.test(key));
  // Other chains lead to a chain without a hook, so it cannot be deleted.
  if (hasOtherHook && hook === undefined) return undefined;
  return { rewriteChains: [{ before: hasOtherHook ? unhooked : wanted, after: wanted }] };
}

function mendSet(
  there: Pick<TableSet, "kind" | "name">,
  all: readonly Difference[],
): Partial<Delta> | undefined {
  const whole = all.find(({ key }) => key === "");
  if (whole?.type === "wrong") return undefined;
  if (whole) return whole.type === "extra" ? { deleteSets: [there] } : {};
  const set = setNamed(there.name);
  const extra = all.filter(({ type }) => type !== "missing");
  if (set === undefined || !extra.every(({ key }) => PLAIN_KEY.test(key))) return undefined;
  return {
    deleteElements: extra.map(({ key: text }) =>
      element(set, parseKey(set, text) ?? { type: "text", text })
    ),
  };
}

function kindOf(declaration: string): TableSet["kind"] {
  return (["map", "flowtable"] as const).find((kind) => declaration.startsWith(kind)) ?? "set";
}
