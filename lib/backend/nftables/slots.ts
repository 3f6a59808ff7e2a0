/**
 * Writes the slots of a large table without reading them: nft takes 2 kB for each element that it lists. To add an
 * element again is no change, and one with other data is an error. Then the slots of the portion are replaced, and ever
 * more of the next portions untried, until a trial fits.
 */
import type { Turns } from "../../model/ports/in_turns.ts";
import { chunks } from "./delta.ts";
import type { Contents } from "./read.ts";
import { type FrontendKey, parseKey, setNamed, type TableSet } from "./sets.ts";
import { isRefusal } from "./nft.ts";
import { elementId, slotElement, type Slots } from "./table.ts";
import { renderingElements } from "./text.ts";
import { Overlap } from "./write.ts";

interface Slice {
  readonly slots: Pick<Slots, "set" | "key">;
  /** Empty if the slots go. */
  readonly destinations: Slots["destinations"];
  readonly from: number;
  readonly to: number;
  /** The number of slots that the kernel should have of the frontend. */
  readonly held: number;
}

interface SlotsOptions {
  readonly apply: (text: string) => Promise<void>;
  /** Gives a transaction to the kernel when another step has ended. */
  readonly applyAfter: (before: Promise<void>, text: string) => Promise<void>;
  readonly turns: Pick<Turns, "run">;
  /** The limit of slots of one transaction; to replace a slot is two operations. */
  readonly portion: number;
}

/**
 * Writes slots. A packet finds the old or the new endpoint.
 * @param held by `HeldSlotsFinder`; others had as many slots
 */
export async function putSlots(
  slots: readonly Slots[],
  held: ReadonlyMap<string, HeldSlots>,
  { apply, applyAfter, turns, portion }: SlotsOptions,
): Promise<void> {
  const slices = function* () {
    for (const each of slots) {
      const { destinations } = each;
      const to = destinations.length;
      const known = held.size > 0 ? held.get(elementId(each)) : undefined;
      yield { slots: each, destinations, from: 0, to, held: known?.count ?? to };
    }
  };
  const overlap = new Overlap();
  const write = { apply, turns };
  let [replacedUntried, untried] = [0, 1];
  for (const each of cut(slices(), portion)) {
    const isTried = replacedUntried === 0;
    if (!isTried) replacedUntried--;
    const text = await turns.run(isTried ? adding(each) : replacing(each, each.map(clampToHeld)));
    await overlap.begin(async (before) => {
      const isDone = await isTaken(() => applyAfter(before, text));
      if (isTried) [replacedUntried, untried] = isDone ? [0, 1] : [untried, untried * 2];
      if (isDone) return;
      // nft may have ended before the step before.
      await before;
      await (isTried ? replace : put)(each, write);
    });
  }
  await overlap.end();
}

/** Deletes slots to which nothing leads any more. @param wanted the slots and sets of the table */
export async function deleteLeftSlots(
  { slots, sets }: { readonly slots: readonly Slots[]; readonly sets: readonly TableSet[] },
  held: ReadonlyMap<string, HeldSlots>,
  { apply, turns, portion }: Omit<SlotsOptions, "applyAfter">,
): Promise<void> {
  const there = new Set(sets.map(({ name }) => name));
  const wanted = new Map<string, number>();
  for (const each of held.size > 0 ? slots : []) {
    const id = elementId(each);
    if (held.has(id)) wanted.set(id, each.destinations.length);
  }
  const left = function* () {
    for (const [id, { set, key, count: to }] of held) {
      const from = wanted.get(id) ?? 0;
      // The slots of a map that goes went with it.
      if (!there.has(set.name) || from >= to) continue;
      yield { slots: { set, key }, destinations: [], from, to, held: to };
    }
  };
  for (const each of cut(left(), portion)) await remove(each, { apply, turns });
}

type Write = (
  slices: readonly Slice[],
  options: Pick<SlotsOptions, "apply" | "turns">,
) => Promise<void>;

function cut(slices: Iterable<Slice>, most: number): Generator<readonly Slice[], void> {
  return chunks(pieces(slices, most), { weigh: ({ from, to }) => to - from, most });
}

function* pieces(slices: Iterable<Slice>, most: number): Generator<Slice, void> {
  for (const slice of slices) {
    for (let { from } = slice; from < slice.to; from += most) {
      yield { ...slice, from, to: Math.min(slice.to, from + most) };
    }
  }
}

const put: Write = async (slices, options) => {
  const { apply, turns } = options;
  const text = await turns.run(adding(slices));
  if (!await isTaken(() => apply(text))) await replace(slices, options);
};

const replace: Write = async (slices, options) => {
  const { apply, turns } = options;
  if (countOf(slices) === 1) return await apply(await turns.run(replacing(slices, slices)));
  const text = await turns.run(replacing(slices, slices.map(clampToHeld)));
  // Another program may have deleted some, or left others where none should be.
  if (!await isTaken(() => apply(text))) await inHalves(slices, put, options);
};

const remove: Write = async (slices, options) => {
  const { apply, turns } = options;
  const text = await turns.run(deleting(slices));
  try {
    await apply(text);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    if (countOf(slices) > 1) return await inHalves(slices, remove, options);
    // Gone already.
    if (error.failure !== "conflict") throw error;
  }
};

async function inHalves(
  slices: readonly Slice[],
  write: Write,
  options: Parameters<Write>[1],
): Promise<void> {
  for (const half of cut(slices, Math.ceil(countOf(slices) / 2))) await write(half, options);
}

function countOf(slices: readonly Slice[]): number {
  return slices.reduce((sum, { from, to }) => sum + to - from, 0);
}

function clampToHeld(slice: Slice): Slice {
  return { ...slice, to: Math.max(slice.from, Math.min(slice.to, slice.held)) };
}

function* adding(slices: readonly Slice[]): Generator<undefined, string> {
  const slots = slices.map(({ slots, destinations, from, to }): Slots => ({
    ...slots,
    type: "slots",
    first: from,
    destinations: destinations.slice(from, to),
  }));
  return (yield* renderingElements("add", slots)).join("");
}

function* deleting(slices: readonly Slice[]): Generator<undefined, string> {
  const elements = slices.flatMap(({ slots, from, to }) =>
    Array.from({ length: to - from }, (_, i) => slotElement(slots, from + i, ""))
  );
  return (yield* renderingElements("delete", elements)).join("");
}

function* replacing(
  slices: readonly Slice[],
  held: readonly Slice[],
): Generator<undefined, string> {
  return (yield* deleting(held)) + (yield* adding(slices));
}

/** Returns false if the kernel refused a step. Too many refused elements are another error (ENOBUFS). */
export async function isTaken(step: () => Promise<void>): Promise<boolean> {
  try {
    await step();
    return true;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

export interface HeldSlots {
  readonly set: TableSet;
  readonly key: FrontendKey;
  readonly count: number;
}

/** Frontends that are looked at without a break. */
const BATCH = 100;

/** Finds frontends that lead to other slots than they should, by their chains. */
export class HeldSlotsFinder {
  readonly #before: Choices;
  readonly #after: Choices;
  readonly found = new Map<string, HeldSlots>();

  constructor(
    { held, wanted }: { readonly held: Contents["chains"]; readonly wanted: Contents["chains"] },
  ) {
    this.#before = new Choices(held);
    this.#after = new Choices(wanted);
  }

  /** Looks at all elements of a set that `leadsToSlots`. @yields where other work can be done */
  *looking(frontends: TableSet, wanted: Contents, held: Contents): Generator<undefined, void> {
    const [before, after] = [held, wanted].map(({ sets }) => sets.get(frontends.name));
    let count = 0;
    for (const [key, { data }] of before ?? []) {
      if (++count % BATCH === 0) yield;
      this.#take(frontends, key, { was: data, is: after?.get(key)?.data ?? "" });
    }
    for (const [key, { data }] of after ?? []) {
      if (++count % BATCH === 0) yield;
      if (!before?.has(key)) this.#take(frontends, key, { was: "", is: data });
    }
  }

  /** @param verdicts `""`: none */
  #take(
    frontends: TableSet,
    text: string,
    verdicts: { readonly was: string; readonly is: string },
  ): void {
    const was = this.#before.behind(verdicts.was);
    const is = this.#after.behind(verdicts.is);
    if (was === is || [...was, ...is].every(([map]) => was.get(map) === is.get(map))) return;
    const key = parseKey(frontends, text);
    if (key?.type !== "frontend") return;
    for (const map of new Set([...was.keys(), ...is.keys()])) {
      const set = setNamed(map);
      if (set?.keyType !== "slot") continue;
      const id = elementId({ type: "slots", set, key });
      const count = Math.max(was.get(map) ?? 0, this.found.get(id)?.count ?? 0);
      this.found.set(id, { set, key, count });
    }
  }
}

export function leadsToSlots({ role }: Pick<TableSet, "role">): boolean {
  return role === "services" || role === "shortCircuits";
}

/** Matches a rule that chooses one of so many slots in a map. */
const CHOICE = / mod (\d+)\b.* map @(\S+)/;
const NEXT = /\b(?:goto|jump) (\S+)/;

/** Another program's rule may name any number. */
const MOST_SLOTS = 100_000;

/** Counts the slots that the chains of a table choose from. */
class Choices {
  readonly #chains: Contents["chains"];
  readonly #known = new Map<string, Map<string, number>>();

  constructor(chains: Contents["chains"]) {
    this.#chains = chains;
  }

  /** Returns the number of slots by map, behind a rule or verdict. */
  behind(rule: string): ReadonlyMap<string, number> {
    const known = this.#known.get(rule);
    if (known) return known;
    const counts = new Map<string, number>();
    this.#known.set(rule, counts);
    const add = (map: string, count: number) =>
      counts.set(map, Math.max(count, counts.get(map) ?? 0));
    const [, count, map] = CHOICE.exec(rule) ?? [];
    if (count !== undefined && map !== undefined) add(map, Math.min(Number(count), MOST_SLOTS));
    const [, chain = ""] = NEXT.exec(rule) ?? [];
    for (const each of this.#chains.get(chain) ?? []) {
      for (const [map, count] of this.behind(each)) add(map, count);
    }
    return counts;
  }
}
