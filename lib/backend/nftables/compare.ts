/** Compares the desired contents of the table with the kernel's. */
import { append } from "../../model/values/lists.ts";
import type { Difference } from "../../model/kernel/differences.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import { type Contents, type Elements, type ElementText, EXPIRING } from "./read.ts";
import { fingerprint } from "./fingerprint.ts";
import { COUNTER, parseKey, printKey, setNamed, type TableSet } from "./sets.ts";
import { compareRules, difference } from "../compare.ts";
import { TABLE } from "./table.ts";

/** Returns the differences of `comparing`, but an endpoint may have any slot of its frontend. */
export function compareContents(desired: Contents, held: Contents): Difference[] {
  const sets = [...desired.sets].map(([name, wanted]) => {
    const [set, there] = [setNamed(name), held.sets.get(name)];
    const isMoved = set?.keyType === "slot" && there !== undefined;
    return [name, isMoved ? inSlotsOf(there, wanted, set) : wanted] as const;
  });
  return atOnce(comparing({ ...desired, sets: new Map(sets) }, held));
}

/**
 * Returns all differences, but for clients of session affinity and marks of transactions.
 * @yields when other work can run
 */
export function* comparing(
  desired: Contents,
  held: Contents,
): Generator<undefined, Difference[]> {
  const differences: Difference[] = [];
  for (const name of new Set([...desired.chains.keys(), ...held.chains.keys()])) {
    // Rules are taken apart for it.
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

/** Returns true if the kernel itself adds and forgets a set's elements. */
export function isOfKernel(set: string): boolean {
  return setNamed(set)?.filledBy === "kernel";
}

/** Returns the frontend of a slot; any other key unchanged. */
export function frontendIn(set: TableSet, text: string): string {
  const key = parseKey(set, text);
  return key?.type === "slot" ? printKey(key.frontend) : text;
}

/** The counter of an element, if its set gives each element one. */
const COUNTS = /^counter packets \d+ bytes \d+ ?/;

/**
 * Moves wanted endpoints to their present slots: the choice is the same, unless a hash chooses (several slots each).
 */
function inSlotsOf(there: Elements, wanted: Elements, set: TableSet): Elements {
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
  const isFilledByKernel = isOfKernel(name);
  for (const [key, { data, remark }] of there) {
    yield;
    // An element that never goes is another program's.
    if (isFilledByKernel && EXPIRING.test(remark)) continue;
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

/** Parses `in` of a difference. No name has a space. */
export function parsePlace(text: string): Place {
  if (text === TABLE_PLACE) return { type: "table", name: "" };
  return text.startsWith(CHAIN)
    ? { type: "chain", name: text.slice(CHAIN.length) }
    : { type: "set", name: text };
}
