/**
 * Holds a large table that packets meet to a state, without writing everything again: reads it back
 * set by set, but for slots, and writes what differs.
 *
 * @module
 */
import type { Difference } from "../../model/kernel/verification.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { mend } from "./drift/mend.ts";
import { findingHeldSlots, type HeldSlots, leadsToSlots } from "./held_slots.ts";
import { comparing, isOfKernel } from "./kernel/compare.ts";
import { type Contents, NO_CONTENTS, parsingListing, readingObjects } from "./kernel/contents.ts";
import type { Nft } from "./kernel/nft.ts";
import { heldBack } from "./kernel/overlap.ts";
import { readable } from "./kernel/readable.ts";
import type { Element } from "./script/objects.ts";
import type { Operations } from "./script/diff.ts";
import type { FullScript, TableContents, TableObjects } from "./script/full_script.ts";
import { inParts, isOnePart, NOTHING } from "./script/parts.ts";
import { countOperations, renderingStep } from "./script/script.ts";
import { setNamed, type TableSet } from "./script/sets.ts";
import { deleteLeftSlots, isTaken, putSlots } from "./slots.ts";

/** What it takes to reconcile. */
export interface ReconcileOptions {
  readonly nft: Pick<Nft, "apply" | "stream" | "listStructure" | "listSet">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** Elements that one transaction adds or deletes, more or less: `nft` takes 2 kB for each. */
  readonly weight: number;
  /** The commands that mark one more transaction as ours. */
  readonly mark: () => string;
  /** Called when a set was read, or a part was written; what it throws ends the work. */
  readonly checkpoint: () => void;
}

/** A state that the kernel holds now. */
export interface Reconciled {
  readonly objects: TableObjects;
  /** What differed, but for slots. */
  readonly written: Pick<TableContents, "bytes" | "operations">;
}

/**
 * Compares the kernel's table with a state, and writes what differs. New slots come before what leads
 * to them, those that are left go after it.
 *
 * @returns `undefined` where everything has to be replaced: nft cannot read the table, or it differs in
 *   what parts cannot mend
 */
export async function reconcile(
  script: FullScript,
  { nft, clock, weight, mark, checkpoint }: ReconcileOptions,
): Promise<Reconciled | undefined> {
  const turns = new Turns(clock);
  const objects = await turns.run(script.objects());
  const listing = await readable(() => nft.listStructure());
  const structure = await turns.run(parsingListing(listing));
  if (!structure) return undefined;
  const found = await readBack(objects, { structure, nft, turns, checkpoint });
  if (!found) return undefined;
  const { differences, slotsBefore } = found;
  const elements = elementsIn(new Set(differences.map((each) => each.in)), objects);
  const desired = { ...objects, elements };
  const operations = mend({ desired, held: structure, differences, most: Infinity });
  if (!operations) return undefined;
  let bytes = 0;
  const apply = async (text: string) => {
    await nft.apply(text + mark());
    checkpoint();
  };
  const applyAfter = async (before: Promise<void>, text: string) => {
    await nft.stream(() => heldBack(text, { before, mark }));
    checkpoint();
  };
  const step = async (part: Operations) => {
    for (const text of await turns.run(renderingStep(part))) {
      await apply(text);
      bytes += text.length;
    }
  };
  const writer = { apply, applyAfter, turns, portion: Math.ceil(weight / 2) };
  const { addSets } = operations;
  const others = { ...operations, addSets: [] };
  // Maps that go may be looked into until the chains that all packets meet are other ones.
  const fitsOne = isOnePart(others, weight) && others.deleteSets.length === 0;
  // Nothing would find those that an end in between left: no chain tells of them any more.
  const toTheEnd = (text: string) => nft.apply(text + mark());
  const isWritten = await isTaken(async () => {
    await step({ ...NOTHING, addSets });
    await putSlots(objects.slots, slotsBefore, writer);
    for (const part of fitsOne ? [others] : inParts(others, weight)) await step(part);
    await deleteLeftSlots(objects, slotsBefore, { ...writer, apply: toTheEnd });
  });
  if (!isWritten) return undefined;
  return { objects, written: { bytes, operations: countOperations(operations) } };
}

/** How the kernel's table differs, slots apart. */
interface Found {
  readonly differences: readonly Difference[];
  /** See `findingHeldSlots`. */
  readonly slotsBefore: ReadonlyMap<string, HeldSlots>;
}

/**
 * Compares the table set by set, and keeps of each only what differs: the texts of all elements would take more
 * memory than all else.
 *
 * @param options `structure`: what the kernel has, without elements
 */
async function readBack(
  objects: TableObjects,
  { structure, nft, turns, checkpoint }: Pick<ReconcileOptions, "nft" | "checkpoint"> & {
    readonly structure: Contents;
    readonly turns: Turns;
  },
): Promise<Found | undefined> {
  const { sets, chains, elements } = objects;
  const wanted = await turns.run(readingObjects({ sets, chains, elements: [] }));
  const options = { exactSlots: true };
  const differences = [await turns.run(comparing(wanted, structure, options))];
  const slotsBefore = new Map<string, HeldSlots>();
  for (const group of readTogether(sets, structure)) {
    const there = new Map<string, ElementsOfSet>();
    const desired = new Map<string, ElementsOfSet>();
    for (const set of group) {
      const { kind, name } = set;
      if (structure.sets.has(name)) {
        const text = await readable(() => nft.listSet({ kind, name }));
        const listed = elementsOf(name, await turns.run(parsingListing(text)));
        checkpoint();
        if (!listed) return undefined;
        there.set(name, listed);
      }
      if (!wanted.sets.has(name)) continue;
      const all = { sets: [set], chains: [], elements: elements.get(name) ?? [] };
      const own = elementsOf(name, await turns.run(readingObjects(all)));
      desired.set(name, own ?? NO_ELEMENTS);
    }
    // What only one of them has is a difference of the structure.
    const both = (one: typeof there, other: typeof there) =>
      contentsOf([...one].filter(([name]) => other.has(name)), wanted);
    const [left, right] = [both(desired, there), both(there, desired)];
    differences.push(await turns.run(comparing(left, right, options)));
    await turns.run(findingHeldSlots(slotsBefore, {
      held: { ...contentsOf(there, wanted), chains: structure.chains },
      wanted: { ...contentsOf(desired, wanted), chains: wanted.chains },
    }));
  }
  return { differences: differences.flat(), slotsBefore };
}

/** The elements of a set. */
interface ElementsOfSet {
  /** By key, the data. */
  readonly data: ReadonlyMap<string, string>;
  /** By key, what an element has besides. */
  readonly remarks: ReadonlyMap<string, string>;
}

const NO_ELEMENTS: ElementsOfSet = { data: new Map(), remarks: new Map() };

function elementsOf(name: string, contents: Contents | undefined): ElementsOfSet | undefined {
  const data = contents?.sets.get(name);
  return data && { data, remarks: contents?.remarks.get(name) ?? NO_ELEMENTS.remarks };
}

/** Some sets alone, with the declarations that they should have. */
function contentsOf(
  sets: Iterable<readonly [name: string, elements: ElementsOfSet]>,
  { declarations }: Contents,
): Contents {
  const all = [...sets];
  return {
    ...NO_CONTENTS,
    sets: new Map(all.map(([name, { data }]) => [name, data])),
    remarks: new Map(all.map(([name, { remarks }]) => [name, remarks])),
    declarations,
  };
}

/** The sets that are compared, in groups: a frontend is in one group, wherever each side has it. */
function readTogether(sets: readonly TableSet[], { sets: there }: Contents): readonly TableSet[][] {
  const wanted = new Set(sets.map(({ name }) => name));
  // Maps of before that led to slots tell how many there are.
  const left = [...there.keys()].flatMap((name) => wanted.has(name) ? [] : setNamed(name) ?? [])
    .filter(leadsToSlots);
  const isCutAnew = left.some(({ role }) => role === "services");
  const groups = Map.groupBy(
    // The kernel's own elements stay, whatever they are.
    [...sets, ...left].filter(({ name, keyType }) => keyType !== "slot" && !isOfKernel(name)),
    ({ role, family, name }) => isCutAnew && role === "services" ? `${role} ${family}` : name,
  );
  return [...groups.values()];
}

/** The elements of some sets. */
function elementsIn(names: ReadonlySet<string>, { elements }: TableObjects): readonly Element[] {
  return [...names].flatMap((name) => elements.get(name) ?? []);
}
