/**
 * Compares the desired contents of the table with the kernel's.
 *
 * @module
 */
import { append } from "../../model/values/lists.ts";
import type { Difference } from "../../model/kernel/differences.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import type { Contents } from "./read.ts";
import { fingerprint } from "./fingerprint.ts";
import { type FrontendKey, parseKey, printKey } from "./keys.ts";
import { COUNTER, setNamed, type TableSet } from "./sets.ts";
import { compareRules } from "../compare.ts";
import { TABLE } from "./table.ts";

/** The options of a comparison. */
export interface CompareOptions {
  /** True if an endpoint needs its own slot, and not any slot of its frontend. */
  readonly exactSlots?: boolean;
}

/**
 * All differences, by set and key. Clients of session affinity are the kernel's own, and marks of
 * transactions pass.
 */
export function compareContents(
  desired: Contents,
  held: Contents,
  options: CompareOptions = {},
): Difference[] {
  return atOnce(comparing(desired, held, options));
}

/** Elements that are compared without a break. */
const BATCH = 100;

/**
 * The same in turns.
 *
 * @yields where other work can be done
 */
export function* comparing(
  desired: Contents,
  held: Contents,
  { exactSlots = false }: CompareOptions = {},
): Generator<undefined, Difference[]> {
  const chains = yield* compareChains(desired, held);
  const sets = yield* compareSets(desired, held, exactSlots);
  return [...compareTable(desired, held), ...[...chains, ...sets].sort(byPlace)];
}

function compareTable(desired: Contents, held: Contents): Difference[] {
  const place = { in: TABLE_PLACE, desired: "", held: "" };
  const extra = held.others.filter((other) => !desired.others.includes(other));
  return [
    ...held.flags === desired.flags
      ? []
      : [{ ...place, type: "wrong" as const, key: "flags", held: held.flags }],
    ...extra.map((key) => ({ ...place, type: "extra" as const, key })),
  ];
}

function byPlace(a: Difference, b: Difference): number {
  const [left, right] = [`${a.in} ${a.key}`, `${b.in} ${b.key}`];
  return left < right ? -1 : left > right ? 1 : 0;
}

function* compareChains(desired: Contents, held: Contents): Generator<undefined, Difference[]> {
  const differences: Difference[] = [];
  const names = new Set([...desired.chains.keys(), ...held.chains.keys()]);
  for (const name of names) {
    // Rules are taken apart for it.
    yield;
    for (const each of compareChain(desired, held, name)) differences.push(each);
  }
  return differences;
}

function compareChain(desired: Contents, held: Contents, name: string): Difference[] {
  const place = chainPlace(name);
  const wanted = desired.chains.get(name);
  const there = held.chains.get(name);
  if (!wanted || !there) {
    const type = wanted ? "missing" : "extra";
    return [{ type, in: place, key: "", desired: "", held: "" }];
  }
  // Chains of session affinity ask endpoints in the order in which they came.
  const anywhere = new Set(wanted.slice(0, desired.lookUps.get(name) ?? 0).map(fingerprint));
  const orderOf = (rule: string) => {
    const key = fingerprint(rule);
    return anywhere.has(key) ? "" : key;
  };
  return compareRules(wanted, there, { place, keyOf: fingerprint, orderOf });
}

function* compareSets(
  desired: Contents,
  held: Contents,
  exactSlots: boolean,
): Generator<undefined, Difference[]> {
  const differences: Difference[] = [];
  for (const name of new Set([...desired.sets.keys(), ...held.sets.keys()])) {
    const wanted = desired.sets.get(name);
    const there = held.sets.get(name);
    if (!wanted || !there) {
      const type = wanted ? "missing" : "extra";
      differences.push({ type, in: name, key: "", desired: "", held: "" });
      continue;
    }
    append(differences, compareDeclarations(desired, held, name));
    const set = setNamed(name);
    const isMoved = !exactSlots && set?.keyType === "slot";
    const left = isMoved ? inSlotsOf(there, wanted, set) : wanted;
    const elements = yield* isOfKernel(name)
      ? compareOfKernel(held, name)
      : compareElements(name, { wanted: left, desired, held });
    // More than a call takes arguments may differ.
    for (const each of elements) differences.push(each);
  }
  return differences;
}

/** Returns true if the kernel itself adds and forgets a set's elements. */
export function isOfKernel(set: string): boolean {
  return setNamed(set)?.filledBy === "kernel";
}

function compareDeclarations(desired: Contents, held: Contents, name: string): Difference[] {
  const [wanted = "", there = ""] = [desired, held].map((each) => each.declarations.get(name));
  return wanted === there
    ? []
    : [{ type: "wrong", in: name, key: "", desired: wanted, held: there }];
}

/** The remark of an element that the kernel added: the time until it goes. */
const EXPIRING = /^(?:timeout \S+ )?expires \S+$/;

/** The counter of an element, if its set gives each element one. */
const COUNTS = /^counter packets \d+ bytes \d+ ?/;

/** Returns the elements of a set that the kernel fills that have more than a time: other programs added them. */
function* compareOfKernel(held: Contents, name: string): Generator<undefined, Difference[]> {
  const differences: Difference[] = [];
  let count = 0;
  for (const key of held.sets.get(name)?.keys() ?? []) {
    if (++count % BATCH === 0) yield;
    const remark = held.remarks.get(name)?.get(key) ?? "";
    if (EXPIRING.test(remark)) continue;
    differences.push({ type: "extra", in: name, key, desired: "", held: remark });
  }
  return differences;
}

/** An element of a set, but for its key. */
export interface ElementText {
  /** The value of the key; `""` in a set. */
  readonly data: string;
  /** The comment, time or counter. */
  readonly remark: string;
}

/** Returns true if each element of a set should count. */
export function isCounting(
  { declarations }: Pick<Contents, "declarations">,
  name: string,
): boolean {
  return declarations.get(name)?.split("; ").includes(COUNTER) ?? false;
}

/** Returns the difference of an element; `undefined` on a side: it is not there. @param options `counts`: see `isCounting` */
export function compareElement(
  place: Pick<Difference, "in" | "key">,
  { desired, held, counts }: {
    readonly desired: ElementText | undefined;
    readonly held: ElementText | undefined;
    readonly counts: boolean;
  },
): Difference | undefined {
  if (!desired || !held) {
    const type = desired ? "missing" : "extra";
    return { type, ...place, desired: desired?.data ?? "", held: held?.data ?? "" };
  }
  const { data } = desired;
  if (data !== held.data) return { type: "wrong", ...place, desired: data, held: held.data };
  const remark = counts ? held.remark.replace(COUNTS, "") : held.remark;
  if (remark === desired.remark) return undefined;
  const withData = (remark: string) => [data, remark].filter((each) => each !== "").join(" ");
  return { type: "wrong", ...place, desired: withData(desired.remark), held: withData(remark) };
}

/** Yields each key once, without a copy of all. */
function* keysOfBoth(
  one: ReadonlyMap<string, string> = new Map(),
  other: ReadonlyMap<string, string> = new Map(),
): Iterable<string> {
  yield* one.keys();
  for (const key of other.keys()) if (!one.has(key)) yield key;
}

/**
 * Moves wanted endpoints to the slots where they are: endpoints that came in another order have other slots, and the
 * choice is the same. If an endpoint has several slots, a hash chooses, and each slot counts.
 */
function inSlotsOf(
  there: ReadonlyMap<string, string>,
  wanted: ReadonlyMap<string, string>,
  set: TableSet,
): ReadonlyMap<string, string> {
  const held = byFrontend(there, set);
  const moved = new Map<string, string>();
  for (const [id, { frontend, slots }] of byFrontend(wanted, set)) {
    const rest = new Set(slots.values());
    const free = new Set(slots.keys());
    const put = (slot: number, data: string) =>
      moved.set(printKey({ type: "slot", frontend, slot }), data);
    const isHashed = rest.size < slots.size;
    for (const [slot, data] of isHashed ? slots : []) put(slot, data);
    if (isHashed) continue;
    for (const [slot, data] of held.get(id)?.slots ?? []) {
      if (!free.has(slot) || !rest.delete(data)) continue;
      free.delete(slot);
      put(slot, data);
    }
    const left = [...rest];
    [...free].forEach((slot, i) => put(slot, left[i] ?? ""));
  }
  return moved;
}

/** A frontend, and the endpoint of each slot. */
interface FrontendSlots {
  readonly frontend: FrontendKey;
  readonly slots: Map<number, string>;
}

function byFrontend(
  elements: ReadonlyMap<string, string>,
  set: TableSet,
): Map<string, FrontendSlots> {
  const frontends = new Map<string, FrontendSlots>();
  for (const [text, data] of elements) {
    const key = parseKey(set, text);
    if (key?.type !== "slot") continue;
    const id = printKey(key.frontend);
    const known = frontends.get(id);
    if (known) known.slots.set(key.slot, data);
    else frontends.set(id, { frontend: key.frontend, slots: new Map([[key.slot, data]]) });
  }
  return frontends;
}

function* compareElements(
  name: string,
  { wanted, desired, held }: {
    /** The data of each key. */
    readonly wanted: ReadonlyMap<string, string>;
    readonly desired: Contents;
    readonly held: Contents;
  },
): Generator<undefined, Difference[]> {
  const differences: Difference[] = [];
  const there = held.sets.get(name);
  const [remarks, heldRemarks] = [desired.remarks.get(name), held.remarks.get(name)];
  const counts = isCounting(desired, name);
  let count = 0;
  for (const key of keysOfBoth(wanted, there)) {
    if (++count % BATCH === 0) yield;
    const difference = compareElement({ in: name, key }, {
      desired: elementText(wanted.get(key), remarks?.get(key)),
      held: elementText(there?.get(key), heldRemarks?.get(key)),
      counts,
    });
    if (difference) differences.push(difference);
  }
  return differences;
}

function elementText(data: string | undefined, remark = ""): ElementText | undefined {
  return data === undefined ? undefined : { data, remark };
}

/** A part of the table by name, or the table itself. */
export interface Place {
  readonly type: "table" | "chain" | "set";
  /** `""` for the table. */
  readonly name: string;
}

/** The text of the table itself. */
export const TABLE_PLACE = `table ${TABLE}`;

const CHAIN = "chain ";

/** Returns `in` of a difference for a chain; for a set or map it is the name. */
export function chainPlace(name: string): string {
  return CHAIN + name;
}

/** Parses `in` of a difference. No name has a space. */
export function parsePlace(text: string): Place {
  if (text === TABLE_PLACE) return { type: "table", name: "" };
  return text.startsWith(CHAIN)
    ? { type: "chain", name: text.slice(CHAIN.length) }
    : { type: "set", name: text };
}
