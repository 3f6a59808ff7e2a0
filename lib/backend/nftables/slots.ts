/**
 * Holds the slots of a large table to a state without reading them: nft takes 2 kB for each element
 * that it lists, and cannot list a part of a map.
 *
 * They are added again, in portions. To the kernel, an element that is there already is no change, and
 * one with other data is an error: then those of the portion are replaced, and some of the portions that
 * follow without trying: ever more, until one that is tried fits. How many slots a frontend had, `HeldSlotsFinder` finds out.
 *
 * @module
 */
import type { Turns } from "../../model/ports/in_turns.ts";
import { chunks } from "./delta.ts";
import type { Contents } from "./read.ts";
import { type FrontendKey, parseKey } from "./keys.ts";
import { isRefusal } from "./nft.ts";
import { elementId, slotElement, type Slots } from "./table.ts";
import { setNamed, type TableSet } from "./sets.ts";
import { renderingElements } from "./text.ts";
import { Overlap } from "./write.ts";

/** Some slots of one frontend in a map. */
interface Slice {
  readonly slots: Pick<Slots, "set" | "key">;
  /** The destinations of all slots of the frontend; empty if the slots go. */
  readonly destinations: Slots["destinations"];
  readonly from: number;
  readonly to: number;
  /** The kernel should have so many slots of the frontend, with these destinations or others. */
  readonly held: number;
}

/** Inputs of `putSlots`. */
export interface SlotsOptions {
  /** Gives a transaction to the kernel. */
  readonly apply: (text: string) => Promise<void>;
  /** Gives a transaction to the kernel when another step has ended; nft reads it before. */
  readonly applyAfter: (before: Promise<void>, text: string) => Promise<void>;
  readonly turns: Pick<Turns, "run">;
  /** The limit of slots of one transaction; to replace a slot is two operations. */
  readonly portion: number;
}

/**
 * Writes these slots. A packet always finds the old or the new endpoint.
 *
 * @param held the number of slots of frontends that led to other slots, see `HeldSlotsFinder`; all others had as many
 * @throws {ApplyError} if the kernel takes a slot in no way
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

/**
 * Deletes the slots to which nothing leads any more.
 *
 * @param wanted the slots and sets of the table
 */
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

/** Cuts slices to portions of so many slots. */
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

/** Returns the part of a slice that the kernel should have. */
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

/**
 * Returns true if the kernel took a step, false if it refused it. The kernel reports each element that differs; too
 * many reports are an error of another kind (ENOBUFS).
 */
export async function isTaken(step: () => Promise<void>): Promise<boolean> {
  try {
    await step();
    return true;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

/** The slots that the kernel has of a frontend in a map. */
export interface HeldSlots {
  readonly set: TableSet;
  readonly key: FrontendKey;
  readonly count: number;
}

/** Frontends that are looked at without a break. */
const BATCH = 100;

/** Finds frontends that lead to other slots than they should, by the chains that they lead to. */
export class HeldSlotsFinder {
  readonly #before: Choices;
  readonly #after: Choices;
  /** By `elementId`, what they have now. */
  readonly found = new Map<string, HeldSlots>();

  /** @param chains by name, their rules: those that the kernel has, and those that it should have */
  constructor(
    { held, wanted }: { readonly held: Contents["chains"]; readonly wanted: Contents["chains"] },
  ) {
    this.#before = new Choices(held);
    this.#after = new Choices(wanted);
  }

  /**
   * Looks at all elements of a set that `leadsToSlots`.
   *
   * @yields where other work can be done
   */
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

  /** @param verdicts the chains that an element leads to and should lead to; `""`: none */
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

/** Returns true if a map leads frontends to chains that choose slots. */
export function leadsToSlots({ role }: Pick<TableSet, "role">): boolean {
  return role === "services" || role === "shortCircuits";
}

/** A rule that chooses one of so many slots in a map. */
const CHOICE = / mod (\d+)\b.* map @(\S+)/;
const NEXT = /\b(?:goto|jump) (\S+)/;

/** Another program's rule may name any number. */
const MOST_SLOTS = 100_000;

/** From how many slots of which maps the chains of a table choose. */
class Choices {
  readonly #chains: Contents["chains"];
  readonly #known = new Map<string, Map<string, number>>();

  constructor(chains: Contents["chains"]) {
    this.#chains = chains;
  }

  /** By map, the number of slots that a rule leads to, or a verdict. */
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
