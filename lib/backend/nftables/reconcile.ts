/**
 * Holds a large table that packets meet to a state, without writing everything again: reads it back
 * set by set, but for slots, and writes what differs.
 *
 * @module
 */
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { mend } from "./drift/mend.ts";
import type { Nft } from "./kernel/nft.ts";
import { heldBack } from "./kernel/overlap.ts";
import { readBack } from "./read_back.ts";
import type { Operations } from "./script/diff.ts";
import type { FullScript, TableContents, TableObjects } from "./script/full_script.ts";
import type { Element } from "./script/objects.ts";
import { inParts, isOnePart, NOTHING } from "./script/parts.ts";
import { countOperations, renderingStep } from "./script/script.ts";
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
  const found = await readBack(objects, { nft, turns, checkpoint });
  if (!found) return undefined;
  const { structure, differences, slotsBefore } = found;
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

/** The elements of some sets. */
function elementsIn(names: ReadonlySet<string>, { elements }: TableObjects): readonly Element[] {
  return [...names].flatMap((name) => elements.get(name) ?? []);
}
