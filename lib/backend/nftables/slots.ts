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
import { ApplyError, type ApplyFailure } from "../../model/kernel/dataplane.ts";
import type { Turns } from "../../model/ports/in_turns.ts";
import { Overlap } from "./portions.ts";
import { type FrontendKey, parseKey, slotPrinter } from "./script/keys.ts";
import { elementId, slotData, type Slots } from "./script/objects.ts";
import { elementCommand, renderPair } from "./script/script.ts";
import { setNamed, type TableSet } from "./script/sets.ts";
import type { Contents } from "./kernel/contents.ts";

/** Some slots of one frontend in a map. */
interface Slice {
  readonly set: string;
  readonly key: FrontendKey;
  /** By slot; none: the slots go. */
  readonly destinations?: Slots["destinations"];
  readonly from: number;
  readonly to: number;
  /** The kernel should have so many slots of the frontend, with these destinations or others. */
  readonly held: number;
}

/** What writes slots. */
export interface SlotsOptions {
  /** Gives a transaction to the kernel. */
  readonly apply: (text: string) => Promise<void>;
  /** The same, of a block that is read meanwhile, when another step has ended. */
  readonly applyAfter: (before: Promise<void>, text: string) => Promise<void>;
  readonly turns: Pick<Turns, "giveWay" | "run">;
  /** Slots of one transaction, at most; to replace one is two operations. */
  readonly portion: number;
}

/** Slices that are cut at one go. */
const BATCH = 100;

/**
 * Has the kernel hold these slots; packets find one of before or after all the time.
 *
 * @param held of the frontends that led to other slots, see `HeldSlotsFinder`; all others had as many
 * @throws {ApplyError} where the kernel takes a slot in no way
 */
export async function putSlots(
  slots: readonly Slots[],
  held: ReadonlyMap<string, HeldSlots>,
  { apply, applyAfter, turns, portion }: SlotsOptions,
): Promise<void> {
  const slices = function* () {
    for (const each of slots) {
      const { set: { name: set }, key, destinations } = each;
      const to = destinations.length;
      const known = held.size > 0 ? held.get(elementId(each)) : undefined;
      yield { set, key, destinations, from: 0, to, held: known?.count ?? to };
    }
  };
  const overlap = new Overlap();
  const write = { apply, turns };
  let [replacedUntried, untried] = [0, 1];
  for (const each of cut(slices(), portion)) {
    if (each === undefined) {
      await turns.giveWay();
      continue;
    }
    const isTried = replacedUntried === 0;
    if (!isTried) replacedUntried--;
    const text = await turns.run(
      isTried ? rendering("add", each) : replacing(each, each.map(ofKernel)),
    );
    await overlap.begin(async (before) => {
      const fits = await isTaken(() => applyAfter(before, text));
      if (isTried) [replacedUntried, untried] = fits ? [0, 1] : [untried, untried * 2];
      if (fits) return;
      // Where nft ended before the step before.
      await before;
      await (isTried ? replace : put)(each, write);
    });
  }
  await overlap.end();
}

/**
 * Deletes what frontends have left, which no packet is led to any more.
 *
 * @param slots that there should be; `sets`: those that there are
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
    for (const [id, { set: { name: set }, key, count: to }] of held) {
      const from = wanted.get(id) ?? 0;
      // Those of a map that goes went with it.
      if (there.has(set) && from < to) yield { set, key, from, to, held: to };
    }
  };
  for (const each of cut(left(), portion)) {
    if (each === undefined) await turns.giveWay();
    else await remove(each, { apply, turns });
  }
}

type Write = (
  slices: readonly Slice[],
  options: Pick<SlotsOptions, "apply" | "turns">,
) => Promise<void>;

/**
 * Cuts slices to portions of so many slots.
 *
 * @yields `undefined` where other work can be done
 */
function* cut(slices: Iterable<Slice>, size: number): Generator<readonly Slice[] | undefined> {
  let portion: Slice[] = [];
  let room = size;
  for (const slice of slices) {
    for (let { from } = slice; from < slice.to;) {
      const to = Math.min(slice.to, from + room);
      portion.push({ ...slice, from, to });
      room -= to - from;
      from = to;
      if (room > 0 && portion.length % BATCH === 0) yield undefined;
      if (room > 0) continue;
      yield portion;
      [portion, room] = [[], size];
    }
  }
  if (portion.length > 0) yield portion;
}

const put: Write = async (slices, options) => {
  const { apply, turns } = options;
  const text = await turns.run(rendering("add", slices));
  if (!await isTaken(() => apply(text))) await replace(slices, options);
};

const replace: Write = async (slices, options) => {
  const { apply, turns } = options;
  if (countOf(slices) === 1) return await apply(await turns.run(replacing(slices, slices)));
  const text = await turns.run(replacing(slices, slices.map(ofKernel)));
  // Another program may have deleted some, or left others where none should be.
  if (!await isTaken(() => apply(text))) await inHalves(slices, put, options);
};

function* replacing(
  slices: readonly Slice[],
  held: readonly Slice[],
): Generator<undefined, string> {
  return (yield* rendering("delete", held)) + (yield* rendering("add", slices));
}

const remove: Write = async (slices, options) => {
  const { apply, turns } = options;
  const text = await turns.run(rendering("delete", slices));
  try {
    await apply(text);
  } catch (error) {
    if (!isOfKernel(error)) throw error;
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
  for (const half of cut(slices, Math.ceil(countOf(slices) / 2))) {
    if (half === undefined) await options.turns.giveWay();
    else await write(half, options);
  }
}

function countOf(slices: readonly Slice[]): number {
  return slices.reduce((sum, { from, to }) => sum + to - from, 0);
}

/** What of some slots the kernel should have. */
function ofKernel(slice: Slice): Slice {
  return { ...slice, to: Math.max(slice.from, Math.min(slice.to, slice.held)) };
}

/**
 * Returns true if a step was taken; where not, there is another way. The kernel tells of each element that does
 * not fit to what it holds, and very many are an error of another kind (ENOBUFS).
 */
export async function isTaken(step: () => Promise<void>): Promise<boolean> {
  try {
    await step();
    return true;
  } catch (error) {
    if (isOfKernel(error)) return false;
    throw error;
  }
}

/** Returns true if nft ended and gave the kernel's answer. */
function isOfKernel(error: unknown): error is ApplyError {
  return error instanceof ApplyError && !PROGRAM_FAILURES.has(error.failure);
}

const PROGRAM_FAILURES: ReadonlySet<ApplyFailure> = new Set([
  "program-missing",
  "program-failed",
  "unreadable",
  "not-permitted",
  "owned",
]);

/** Slots that are written at one go. */
const LINES = 100;

/**
 * Writes commands that add or delete slots, one for each map.
 *
 * @yields where other work can be done
 */
function* rendering(
  verb: "add" | "delete",
  slices: readonly Slice[],
): Generator<undefined, string> {
  const commands: string[] = [];
  for (const [set, members] of Map.groupBy(slices, ({ set }) => set)) {
    const lines: string[] = [];
    for (const { key, destinations, from, to } of members) {
      const keyOf = slotPrinter(key);
      for (let slot = from; slot < to; slot++) {
        const destination = verb === "add" ? destinations?.[slot] : undefined;
        lines.push(destination ? renderPair(keyOf(slot), slotData(destination)) : keyOf(slot));
        if (lines.length % LINES === 0) yield;
      }
    }
    if (lines.length === 0) continue;
    commands.push(elementCommand(verb, { set, lines }));
  }
  return commands.join("");
}

/** The slots that the kernel has of a frontend in a map. */
export interface HeldSlots {
  readonly set: TableSet;
  readonly key: FrontendKey;
  readonly count: number;
}

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
   * Looks at an element of a set; those that lead to no slots are passed over.
   *
   * @param text its key, as listings have it
   * @param verdicts what it leads to, and what it should lead to; `""`: nothing
   */
  take(
    frontends: TableSet,
    text: string,
    verdicts: { readonly was: string; readonly is: string },
  ): void {
    if (!leadsToSlots(frontends)) return;
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
