/**
 * Holds the slots of a large table to a state without reading them: nft takes 2 kB for each element
 * that it lists, and cannot list a part of a map.
 *
 * They are added again, in portions. To the kernel, an element that is there already is no change, and
 * one with other data is an error: then those of the portion are replaced, and some of the portions that
 * follow without trying: ever more, until one that is tried fits. How many slots a frontend had is known from
 * the chain that it leads to.
 *
 * @module
 */
import { ApplyError, type ApplyFailure } from "../../model/kernel/dataplane.ts";
import type { Turns } from "../../model/ports/in_turns.ts";
import { keysOfBoth } from "./kernel/compare.ts";
import type { Contents } from "./kernel/contents.ts";
import { Overlap } from "./kernel/overlap.ts";
import { type FrontendKey, slotPrinter } from "./script/keys.ts";
import { elementId, slotData, type Slots, TABLE } from "./script/objects.ts";
import { renderPair } from "./script/script.ts";
import { frontendMap, parseKey, setNamed, type TableSet } from "./script/sets.ts";

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

/** The slots that the kernel has of a frontend in a map. */
export interface HeldSlots {
  readonly set: TableSet<"endpoints" | "localEndpoints">;
  readonly key: FrontendKey;
  readonly count: number;
}

/** What writes slots. */
export interface SlotsOptions {
  /** Gives a transaction to the kernel. */
  readonly apply: (text: string) => Promise<void>;
  /** The same, of a block that is read meanwhile, when another step has ended. */
  readonly applyAfter: (before: Promise<void>, text: string) => Promise<void>;
  readonly turns: Pick<Turns, "giveWay">;
  /** Slots of one transaction, at most; to replace one is two operations. */
  readonly portion: number;
}

/** Frontends that are looked at at one go. */
const BATCH = 100;

/**
 * Finds frontends that lead to other slots than they should: by `elementId`, what they have now.
 *
 * @yields where other work can be done
 */
export function* heldSlots(
  held: Contents,
  wanted: Contents,
): Generator<undefined, ReadonlyMap<string, HeldSlots>> {
  const found = new Map<string, HeldSlots>();
  const [before, after] = [new Choices(held), new Choices(wanted)];
  let sinceTurn = 0;
  for (const name of new Set([...wanted.sets.keys(), ...held.sets.keys()])) {
    const frontends = setNamed(name);
    if (!frontends || !leadsToSlots(frontends)) continue;
    const [there, desired] = [held, wanted].map((each) => each.sets.get(name));
    for (const text of keysOfBoth(there, desired)) {
      if (++sinceTurn % BATCH === 0) yield;
      const was = before.behind(verdictOf(held, frontends, text));
      const is = after.behind(verdictOf(wanted, frontends, text));
      if (was === is || [...was, ...is].every(([map]) => was.get(map) === is.get(map))) continue;
      const key = parseKey(frontends, text);
      if (key?.type !== "frontend") continue;
      for (const map of new Set([...was.keys(), ...is.keys()])) {
        const set = setNamed(map);
        if (!isOfSlots(set)) continue;
        const id = elementId({ type: "slots", set, key });
        const count = Math.max(was.get(map) ?? 0, found.get(id)?.count ?? 0);
        found.set(id, { set, key, count });
      }
    }
  }
  return found;
}

/** Whether a map leads frontends to chains that choose slots. */
export function leadsToSlots({ role }: Pick<TableSet, "role">): boolean {
  return role === "services" || role === "shortCircuits";
}

/** Where a frontend leads to; the table may have it in another map of the role (`DesiredNode.cutsFrontends`). */
function verdictOf({ sets }: Contents, frontends: TableSet, text: string): string {
  const verdict = sets.get(frontends.name)?.get(text);
  if (verdict !== undefined || frontends.role !== "services") return verdict ?? "";
  const key = parseKey(frontends, text);
  if (key?.type !== "frontend" || frontends.family === undefined) return "";
  const cutsFrontends = frontends.shard === undefined;
  const { name } = frontendMap({ cutsFrontends }, { family: frontends.family, key });
  return sets.get(name)?.get(text) ?? "";
}

function isOfSlots(set: TableSet | undefined): set is HeldSlots["set"] {
  return set?.keyType === "slot";
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

  constructor({ chains }: Contents) {
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

/**
 * Has the kernel hold these slots; packets find one of before or after all the time.
 *
 * @param held of the frontends that led to other slots, see `heldSlots`; all others had as many
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
  let [replacedUntried, untried] = [0, 1];
  for (const each of cut(slices(), portion)) {
    const isTried = replacedUntried === 0;
    if (!isTried) replacedUntried--;
    const text = isTried ? elements("add", each) : replacing(each);
    await overlap.begin(async (before) => {
      const fits = await isTaken(() => applyAfter(before, text));
      if (isTried) [replacedUntried, untried] = fits ? [0, 1] : [untried, untried * 2];
      if (fits) return;
      // Where nft ended before the step before.
      await before;
      await (isTried ? replace : put)(each, apply);
    });
    await turns.giveWay();
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
    await remove(each, apply);
    await turns.giveWay();
  }
}

type Write = (slices: readonly Slice[], apply: SlotsOptions["apply"]) => Promise<void>;

/** Cuts slices to portions of so many slots. */
function* cut(slices: Iterable<Slice>, size: number): Generator<readonly Slice[]> {
  let portion: Slice[] = [];
  let room = size;
  for (const slice of slices) {
    for (let { from } = slice; from < slice.to;) {
      const to = Math.min(slice.to, from + room);
      portion.push({ ...slice, from, to });
      room -= to - from;
      from = to;
      if (room > 0) continue;
      yield portion;
      [portion, room] = [[], size];
    }
  }
  if (portion.length > 0) yield portion;
}

const put: Write = async (slices, apply) => {
  if (!await isTaken(() => apply(elements("add", slices)))) await replace(slices, apply);
};

const replace: Write = async (slices, apply) => {
  if (countOf(slices) === 1) {
    return await apply(elements("delete", slices) + elements("add", slices));
  }
  // Another program may have deleted some, or left others where none should be.
  if (!await isTaken(() => apply(replacing(slices)))) await inHalves(slices, put, apply);
};

function replacing(slices: readonly Slice[]): string {
  return elements("delete", slices.map(ofKernel)) + elements("add", slices);
}

const remove: Write = async (slices, apply) => {
  try {
    await apply(elements("delete", slices));
  } catch (error) {
    if (!isOfKernel(error)) throw error;
    if (countOf(slices) > 1) return await inHalves(slices, remove, apply);
    // Gone already.
    if (error.failure !== "conflict") throw error;
  }
};

async function inHalves(
  slices: readonly Slice[],
  write: Write,
  apply: SlotsOptions["apply"],
): Promise<void> {
  for (const half of cut(slices, Math.ceil(countOf(slices) / 2))) await write(half, apply);
}

function countOf(slices: readonly Slice[]): number {
  return slices.reduce((sum, { from, to }) => sum + to - from, 0);
}

/** What of some slots the kernel should have. */
function ofKernel(slice: Slice): Slice {
  return { ...slice, to: Math.max(slice.from, Math.min(slice.to, slice.held)) };
}

/**
 * Whether a step was taken; where not, there is another way. The kernel tells of each element that does
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

/** Whether nft came to its end and told of the kernel's answer. */
function isOfKernel(error: unknown): error is ApplyError {
  return error instanceof ApplyError && !PROGRAM_FAILURES.has(error.failure);
}

const PROGRAM_FAILURES: ReadonlySet<ApplyFailure> = new Set([
  "program-missing",
  "program-failed",
  "not-permitted",
]);

function elements(verb: "add" | "delete", slices: readonly Slice[]): string {
  return [...Map.groupBy(slices, ({ set }) => set)].map(([set, members]) => {
    const lists = members.map((each) => linesOf(verb, each)).filter((lines) => lines !== "");
    return lists.length === 0 ? "" : `${verb} element ${TABLE} ${set} {\n${lists.join(",\n")}\n}\n`;
  }).join("");
}

function linesOf(verb: "add" | "delete", { key, destinations, from, to }: Slice): string {
  const keyOf = slotPrinter(key);
  const lines: string[] = [];
  for (let slot = from; slot < to; slot++) {
    const destination = verb === "add" ? destinations?.[slot] : undefined;
    lines.push(destination ? renderPair(keyOf(slot), slotData(destination)) : keyOf(slot));
  }
  return lines.join(",\n");
}
