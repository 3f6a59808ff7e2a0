/**
 * Reads a large table back and compares it with what it should hold, slots apart.
 *
 * @module
 */
import type { Difference } from "../../model/kernel/verification.ts";
import type { Turns } from "../../model/ports/in_turns.ts";
import { type HeldSlots, HeldSlotsFinder, leadsToSlots } from "./held_slots.ts";
import { compareElement, comparing, isCounting, isOfKernel } from "./kernel/compare.ts";
import {
  type Contents,
  elementKey,
  type ListedElement,
  parsingListing,
  readingObjects,
} from "./kernel/contents.ts";
import type { Nft } from "./kernel/nft.ts";
import { readable } from "./kernel/readable.ts";
import type { TableObjects } from "./script/full_script.ts";
import type { Element } from "./script/objects.ts";
import { commentOf } from "./script/script.ts";
import { setNamed, type TableSet } from "./script/sets.ts";

/** How the kernel's table differs from what it should hold. */
export interface ReadBack {
  /** What it has, without elements. */
  readonly structure: Contents;
  readonly differences: readonly Difference[];
  /** See `HeldSlotsFinder`. */
  readonly slotsBefore: ReadonlyMap<string, HeldSlots>;
}

/** What it takes to read a table back. */
export interface ReadBackOptions {
  readonly nft: Pick<Nft, "listStructure" | "listSet">;
  readonly turns: Pick<Turns, "run">;
  /** Called when a set was read; what it throws ends the work. */
  readonly checkpoint: () => void;
}

/** Elements that are looked at at one go. */
const BATCH = 100;

/**
 * Reads set by set. Of the elements, nothing is kept but what differs: the texts of all would take more memory than
 * all else.
 *
 * @returns `undefined` where nft cannot read the table
 */
export async function readBack(
  objects: TableObjects,
  { nft, turns, checkpoint }: ReadBackOptions,
): Promise<ReadBack | undefined> {
  const structure = await turns.run(parsingListing(await readable(() => nft.listStructure())));
  if (!structure) return undefined;
  const { sets, chains, elements } = objects;
  const wanted = await turns.run(readingObjects({ sets, chains, elements: [] }));
  const differences = await turns.run(comparing(wanted, structure, { exactSlots: true }));
  const finder = new HeldSlotsFinder({ held: structure.chains, wanted: wanted.chains });
  for (const group of readTogether(sets, structure)) {
    const comparison = new Comparison(wanted, { differences, finder });
    for (const { name } of group) {
      await turns.run(comparison.expecting(elements.get(name) ?? []));
    }
    for (const set of group) {
      if (!structure.sets.has(set.name)) continue;
      const text = await readable(() => nft.listSet(set));
      const listing = await turns.run(parsingListing(text, comparison.taking(set)));
      checkpoint();
      if (!listing?.sets.has(set.name)) return undefined;
    }
    await turns.run(comparison.finishing(structure));
  }
  return { structure, differences, slotsBefore: finder.found };
}

/** The sets that are compared, in groups: a frontend is in one group, wherever each side has it. */
function readTogether(
  sets: readonly TableSet[],
  { sets: there }: Contents,
): Iterable<readonly TableSet[]> {
  const wanted = new Set(sets.map(({ name }) => name));
  // Maps of before that led to slots tell how many there are.
  const left = [...there.keys()].flatMap((name) => wanted.has(name) ? [] : setNamed(name) ?? [])
    .filter(leadsToSlots);
  const isCutAnew = left.some(({ role }) => role === "services");
  return Map.groupBy(
    // The kernel's own elements stay, whatever they are.
    [...sets, ...left].filter(({ name, keyType }) => keyType !== "slot" && !isOfKernel(name)),
    ({ role, family, name }) => isCutAnew && role === "services" ? `${role} ${family}` : name,
  ).values();
}

/** Compares the elements of some sets with what they should have, in the order of the sets: those that go come last. */
class Comparison {
  readonly #wanted: Contents;
  readonly #differences: Difference[];
  readonly #finder: HeldSlotsFinder;
  /** By key, what was not found yet. */
  readonly #missing = new Map<string, Element>();
  /** Those that were found in a set that goes. */
  readonly #moved = new Set<string>();

  /** @param wanted the structure that the table should have */
  constructor(
    wanted: Contents,
    { differences, finder }: {
      /** Takes what differs. */
      readonly differences: Difference[];
      readonly finder: HeldSlotsFinder;
    },
  ) {
    this.#wanted = wanted;
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

  /** Takes the elements that a set has. */
  taking(set: TableSet): (element: ListedElement) => void {
    const { name } = set;
    const stays = this.#wanted.sets.has(name);
    const counts = isCounting(this.#wanted, name);
    return ({ key, data, remark }) => {
      const element = this.#missing.get(key);
      this.#finder.take(set, key, { was: data, is: element?.data ?? "" });
      // A set that goes takes its elements with it.
      if (!stays) return void (element && this.#moved.add(key));
      const isHere = element?.set.name === name;
      if (isHere) this.#missing.delete(key);
      const difference = compareElement({ in: name, key }, {
        desired: isHere ? { data: element.data, remark: commentOf(element) } : undefined,
        held: { data, remark },
        counts,
      });
      if (difference) this.#differences.push(difference);
    };
  }

  /** Tells of what was not found. @param structure what the kernel has */
  *finishing(structure: Contents): Generator<undefined, void> {
    let count = 0;
    for (const [key, { set, data }] of this.#missing) {
      if (++count % BATCH === 0) yield;
      if (!this.#moved.has(key)) this.#finder.take(set, key, { was: "", is: data });
      if (!structure.sets.has(set.name)) continue;
      this.#differences.push({ type: "missing", in: set.name, key, desired: data, held: "" });
    }
  }
}
