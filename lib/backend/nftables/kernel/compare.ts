/**
 * The desired contents of the table beside those of the kernel.
 *
 * @module
 */
import type { Difference } from "../../../model/kernel/verification.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";
import type { Contents } from "./contents.ts";
import { fingerprint } from "./fingerprint.ts";
import { chainPlace, TABLE_PLACE } from "./place.ts";
import { type FrontendKey, printKey } from "../script/keys.ts";
import { COUNTER, parseKey, setNamed, type TableSet } from "../script/sets.ts";
import { without } from "../../without.ts";

/** How to compare. */
export interface CompareOptions {
  /** Whether an endpoint has to be in its very slot, not in any one of its frontend. */
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

/** Elements that are compared at one go. */
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
  const place = { in: chainPlace(name), desired: "", held: "" };
  const wanted = desired.chains.get(name);
  const there = held.chains.get(name);
  if (!wanted || !there) return [{ type: wanted ? "missing" : "extra", key: "", ...place }];
  const lookUps = wanted.slice(0, desired.lookUps.get(name) ?? 0);
  return compareRules(wanted, there, { ...place, lookUps });
}

/**
 * Rules have no keys: the rule itself is the key. Where only their order differs, that is told, but
 * for `lookUps`: chains of session affinity ask endpoints in the order in which they came.
 */
function compareRules(
  wanted: readonly string[],
  there: readonly string[],
  { lookUps, ...place }: Omit<Difference, "type" | "key"> & { readonly lookUps: readonly string[] },
): Difference[] {
  const missing = without(wanted, { others: there, keyOf: fingerprint });
  const extra = without(there, { others: wanted, keyOf: fingerprint });
  const differences = [
    ...missing.map((rule) => ({ ...place, type: "missing" as const, key: rule })),
    ...extra.map((rule) => ({ ...place, type: "extra" as const, key: rule })),
  ];
  if (differences.length > 0) return differences;
  const anywhere = new Set(lookUps.map(fingerprint));
  const inPlace = (rule: string) => anywhere.has(rule) ? "" : rule;
  const moved = wanted.findIndex((rule, i) =>
    inPlace(fingerprint(rule)) !== inPlace(fingerprint(there[i] ?? ""))
  );
  if (moved < 0) return [];
  const at = (rules: readonly string[]) => `rule ${moved + 1}: ${rules[moved]}`;
  return [{ ...place, type: "wrong", key: "", desired: at(wanted), held: at(there) }];
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
    differences.push(...compareDeclarations(desired, held, name));
    const set = setNamed(name);
    const isMoved = !exactSlots && set?.keyType === "slot";
    const left = isOfKernel(name) ? there : isMoved ? inSlotsOf(there, wanted, set) : wanted;
    // More than a call takes arguments may differ.
    for (const each of yield* compareElements(left, there, name)) differences.push(each);
    for (const each of yield* compareRemarks(desired, held, name)) differences.push(each);
  }
  return differences;
}

/** Whether the kernel itself adds and forgets a set's elements. */
export function isOfKernel(set: string): boolean {
  return setNamed(set)?.filledBy === "kernel";
}

function compareDeclarations(desired: Contents, held: Contents, name: string): Difference[] {
  const [wanted = "", there = ""] = [desired, held].map((each) => each.declarations.get(name));
  return wanted === there
    ? []
    : [{ type: "wrong", in: name, key: "", desired: wanted, held: there }];
}

/** What an element of the kernel's own has besides: the time until it goes. */
const EXPIRING = /^(?:timeout \S+ )?expires \S+$/;

/** What an element counts, where its set's declaration gives each one a counter. */
const COUNTS = /^counter packets \d+ bytes \d+ ?/;

/** Comments, times and counters of the elements that both have. */
function* compareRemarks(
  desired: Contents,
  held: Contents,
  name: string,
): Generator<undefined, Difference[]> {
  const isCounting = desired.declarations.get(name)?.split("; ").includes(COUNTER) ?? false;
  const wanted = desired.remarks.get(name);
  const there = held.remarks.get(name);
  const heldRemark = (key: string) =>
    isCounting ? there?.get(key)?.replace(COUNTS, "") : there?.get(key);
  const keys = isOfKernel(name) ? held.sets.get(name)?.keys() ?? [] : keysOfBoth(wanted, there);
  const differences: Difference[] = [];
  let count = 0;
  for (const key of keys) {
    if (++count % BATCH === 0) yield;
    const remarks = { desired: wanted?.get(key) ?? "", held: heldRemark(key) ?? "" };
    if (isOfKernel(name)) {
      if (EXPIRING.test(remarks.held)) continue;
      differences.push({ type: "extra", in: name, key, desired: "", held: remarks.held });
    } else if (remarks.desired !== remarks.held) {
      const data = held.sets.get(name)?.get(key);
      if (data === undefined || data !== desired.sets.get(name)?.get(key)) continue;
      const withData = (remark: string) => [data, remark].filter((each) => each !== "").join(" ");
      differences.push({
        type: "wrong",
        in: name,
        key,
        desired: withData(remarks.desired),
        held: withData(remarks.held),
      });
    }
  }
  return differences;
}

/** Each key once, without a copy of all. */
export function* keysOfBoth(
  one: ReadonlyMap<string, string> = new Map(),
  other: ReadonlyMap<string, string> = new Map(),
): Iterable<string> {
  yield* one.keys();
  for (const key of other.keys()) if (!one.has(key)) yield key;
}

/**
 * Endpoints keep their slots from sync to sync, and where they came in another order, they have
 * other slots: the choice is the same. What is wanted is moved to the slot where it is. Where an
 * endpoint has several slots, a hash chooses, and each slot counts.
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

/** A frontend, and by slot the endpoint. */
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
  wanted: ReadonlyMap<string, string>,
  there: ReadonlyMap<string, string>,
  name: string,
): Generator<undefined, Difference[]> {
  const differences: Difference[] = [];
  let count = 0;
  for (const [key, desired] of wanted) {
    if (++count % BATCH === 0) yield;
    const held = there.get(key);
    if (held === desired) continue;
    const type = held === undefined ? "missing" : "wrong";
    differences.push({ type, in: name, key, desired, held: held ?? "" });
  }
  for (const [key, held] of there) {
    if (++count % BATCH === 0) yield;
    if (!wanted.has(key)) differences.push({ type: "extra", in: name, key, desired: "", held });
  }
  return differences;
}
