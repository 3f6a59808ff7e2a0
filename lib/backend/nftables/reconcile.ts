/**
 * Holds a large table that packets meet to a state, without writing everything again: reads it back
 * set by set, but for slots, and writes what differs.
 *
 * @module
 */
import type { Difference } from "../../model/kernel/differences.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { countOperations, cut, type Delta, fits, NOTHING, tableOf } from "./delta.ts";
import { mend } from "./mend.ts";
import { compareElement, comparing, isCounting, isOfKernel } from "./compare.ts";
import {
  type Contents,
  elementKey,
  type ListedElement,
  parsingListing,
  readingTable,
} from "./read.ts";
import { type Nft, readable } from "./nft.ts";
import type { Element, Table } from "./table.ts";
import { setNamed, type TableSet } from "./sets.ts";
import {
  deleteLeftSlots,
  type HeldSlots,
  HeldSlotsFinder,
  isTaken,
  leadsToSlots,
  putSlots,
} from "./slots.ts";
import { commentOf, renderingDelta } from "./text.ts";
import { type FullScript, heldBack } from "./write.ts";

/** Inputs of `reconcile`. */
export interface ReconcileOptions {
  readonly nft: Pick<Nft, "apply" | "stream" | "listStructure" | "listSet">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** The number of elements that one transaction adds or deletes: `nft` takes 2 kB for each. */
  readonly weight: number;
  /** Returns the commands that mark one more transaction as ours. */
  readonly mark: () => string;
  /** Called when a set was read, or a part was written; what it throws ends the work. */
  readonly checkpoint: () => void;
}

/**
 * Compares the kernel's table with a state, and writes what differs. New slots come before what leads
 * to them, old ones go after it. The script counts what differed, but for slots.
 *
 * @returns the table; `undefined` if everything has to be replaced: nft cannot read the table, or it differs in
 *   what parts cannot mend
 */
export async function reconcile(
  script: FullScript,
  { nft, clock, weight, mark, checkpoint }: ReconcileOptions,
): Promise<Table | undefined> {
  const turns = new Turns(clock);
  const table = await turns.run(tableOf(script.state));
  const slots = table.elements.filter((each) => each.type === "slots");
  const elements = Map.groupBy(
    table.elements.filter((each) => each.type === "element"),
    ({ set }) => set.name,
  );
  const found = await readBack({ ...table, elements }, { nft, turns, checkpoint });
  if (!found) return undefined;
  const { structure, differences, slotsBefore } = found;
  const different = new Set(differences.map((each) => each.in));
  const desired = {
    ...table,
    elements: [...different].flatMap((name) => elements.get(name) ?? []),
  };
  const delta = mend({ desired, held: structure, differences, most: Infinity });
  if (!delta) return undefined;
  script.bytes = 0;
  script.operations = countOperations(delta);
  const apply = async (text: string) => {
    await nft.apply(text + mark());
    checkpoint();
  };
  const applyAfter = async (before: Promise<void>, text: string) => {
    await nft.stream(() => heldBack(text, { before, mark }));
    checkpoint();
  };
  const step = async (part: Delta) => {
    for (const text of await turns.run(renderingDelta(part))) {
      await apply(text);
      script.bytes += text.length;
    }
  };
  const writer = { apply, applyAfter, turns, portion: Math.ceil(weight / 2) };
  const { addSets } = delta;
  const others = { ...delta, addSets: [] };
  // Maps that go may be looked into until the chains that all packets meet are other ones.
  const isOnePart = fits(others, weight) && others.deleteSets.length === 0;
  // Nothing would find the slots that an end in between left: no chain tells of them any more.
  const toTheEnd = (text: string) => nft.apply(text + mark());
  const isWritten = await isTaken(async () => {
    await step({ ...NOTHING, addSets });
    await putSlots(slots, slotsBefore, writer);
    for (const part of isOnePart ? [others] : cut(others, weight)) await step(part);
    const { sets } = table;
    await deleteLeftSlots({ slots, sets }, slotsBefore, { ...writer, apply: toTheEnd });
  });
  return isWritten ? table : undefined;
}

/** The kernel's table beside the desired one. */
interface ReadBack {
  /** The chains and sets of the kernel's table, without elements. */
  readonly structure: Contents;
  readonly differences: readonly Difference[];
  /** See `HeldSlotsFinder`. */
  readonly slotsBefore: ReadonlyMap<string, HeldSlots>;
}

/** Inputs of `readBack`. */
interface ReadBackOptions {
  readonly nft: Pick<Nft, "listStructure" | "listSet">;
  readonly turns: Pick<Turns, "run">;
  /** Called when a set was read; what it throws ends the work. */
  readonly checkpoint: () => void;
}

/** Elements that are compared without a break. */
const BATCH = 100;

/**
 * Reads set by set. Of the elements, nothing is kept but what differs: the texts of all would take more memory than
 * all else.
 *
 * @returns `undefined` if nft cannot read the table, or frontends are not where they should be
 */
async function readBack(
  { sets, chains, elements }: Pick<Table, "sets" | "chains"> & {
    /** All elements but slots, by set. */
    readonly elements: ReadonlyMap<string, readonly Element[]>;
  },
  { nft, turns, checkpoint }: ReadBackOptions,
): Promise<ReadBack | undefined> {
  const structure = await turns.run(parsingListing(await readable(() => nft.listStructure())));
  if (!structure) return undefined;
  if (lacksFrontends(sets, structure)) return undefined;
  const wanted = await turns.run(readingTable({ sets, chains, elements: [] }));
  const differences = await turns.run(comparing(wanted, structure, { exactSlots: true }));
  const finder = new HeldSlotsFinder({ held: structure.chains, wanted: wanted.chains });
  for (const set of setsToRead(sets, structure)) {
    const comparison = new Comparison(wanted, { set, differences, finder });
    await turns.run(comparison.expecting(elements.get(set.name) ?? []));
    if (structure.sets.has(set.name)) {
      const text = await readable(() => nft.listSet(set));
      const listing = await turns.run(parsingListing(text, comparison.taking()));
      checkpoint();
      if (!listing?.sets.has(set.name)) return undefined;
    }
    await turns.run(comparison.finishing(structure));
  }
  return { structure, differences, slotsBefore: finder.found };
}

/** Returns true for an older version's table: it has slots, but not the map of frontends, which tells how many. */
function lacksFrontends(sets: readonly TableSet[], { sets: there }: Contents): boolean {
  const slots = [...there.keys()].flatMap((name) => setNamed(name) ?? [])
    .filter(({ keyType }) => keyType === "slot");
  const families = new Set(slots.map(({ family }) => family));
  return sets.some((set) => leadsToSlots(set) && families.has(set.family) && !there.has(set.name));
}

/** Returns the sets whose elements are compared. */
function setsToRead(sets: readonly TableSet[], { sets: there }: Contents): readonly TableSet[] {
  const wanted = new Set(sets.map(({ name }) => name));
  // Maps that go tell how many slots their frontends have.
  const going = [...there.keys()].flatMap((name) => wanted.has(name) ? [] : setNamed(name) ?? [])
    .filter(leadsToSlots);
  // The kernel's own elements stay, whatever they are.
  return [...sets, ...going].filter(({ name, keyType }) => keyType !== "slot" && !isOfKernel(name));
}

/** Compares the elements of a set with what it should have. */
class Comparison {
  readonly #wanted: Contents;
  readonly #set: TableSet;
  readonly #differences: Difference[];
  readonly #finder: HeldSlotsFinder;
  /** By key, what was not found yet. */
  readonly #missing = new Map<string, Element>();

  /** @param wanted the structure that the table should have */
  constructor(
    wanted: Contents,
    { set, differences, finder }: {
      readonly set: TableSet;
      /** Takes what differs. */
      readonly differences: Difference[];
      readonly finder: HeldSlotsFinder;
    },
  ) {
    this.#wanted = wanted;
    this.#set = set;
    this.#differences = differences;
    this.#finder = finder;
  }

  /** Takes elements that there should be. */
  *expecting(elements: readonly Element[]): Generator<undefined, void> {
    for (const [i, element] of elements.entries()) {
      if (i % BATCH === BATCH - 1) yield;
      this.#missing.set(elementKey(element), element);
    }
  }

  /** Takes the elements that the set has. */
  taking(): (element: ListedElement) => void {
    const { name } = this.#set;
    const stays = this.#wanted.sets.has(name);
    const counts = isCounting(this.#wanted, name);
    return ({ key, data, remark }) => {
      const element = this.#missing.get(key);
      this.#finder.take(this.#set, key, { was: data, is: element?.data ?? "" });
      // A set that goes takes its elements with it.
      if (!stays) return;
      this.#missing.delete(key);
      const difference = compareElement({ in: name, key }, {
        desired: element && { data: element.data, remark: commentOf(element) },
        held: { data, remark },
        counts,
      });
      if (difference) this.#differences.push(difference);
    };
  }

  /** Reports what was not found. @param structure what the kernel has */
  *finishing(structure: Contents): Generator<undefined, void> {
    const { name } = this.#set;
    const isThere = structure.sets.has(name);
    let count = 0;
    for (const [key, { data }] of this.#missing) {
      if (++count % BATCH === 0) yield;
      this.#finder.take(this.#set, key, { was: "", is: data });
      if (!isThere) continue;
      this.#differences.push({ type: "missing", in: name, key, desired: data, held: "" });
    }
  }
}
