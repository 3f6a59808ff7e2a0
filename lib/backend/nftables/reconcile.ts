/**
 * Holds a large table that packets meet to a state, without writing everything again: reads it back
 * set by set, and writes what differs.
 *
 * `nft` takes 1.7 kB for each element of a set that it lists, and cannot list a part of one. So the
 * slots of a large map are not listed but added again, in portions: to the kernel, an element that is
 * there already is no change, and one with other data is an error.
 *
 * @module
 */
import { ApplyError } from "../../model/kernel/dataplane.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { mend } from "./drift/mend.ts";
import { comparing, isOfKernel } from "./kernel/compare.ts";
import {
  type Contents,
  type DesiredObjects,
  parsingListing,
  readingObjects,
} from "./kernel/contents.ts";
import type { Nft } from "./kernel/nft.ts";
import { readable } from "./kernel/readable.ts";
import { type Operations, slotElements } from "./script/diff.ts";
import { type FullScript, PORTION_WEIGHT, type TableObjects } from "./script/full_script.ts";
import { type Slots, TABLE } from "./script/objects.ts";
import { renderSlots } from "./script/table_text.ts";

/** What it takes to reconcile. */
export interface ReconcileOptions {
  readonly nft: Pick<Nft, "apply" | "listStructure" | "listSet">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** Slots of a map that is listed, at most. */
  readonly mostListed: number;
  /** The commands that mark one more transaction as ours. */
  readonly mark: () => string;
}

/** Most slots of a map that is listed: nft takes 120 MB for them. */
export const MOST_LISTED = 70_000;

/** Slots that are made at one go: a few milliseconds. */
const BATCH = 5_000;

/** What a table needs to be in a state. */
export interface Reconciliation {
  readonly objects: TableObjects;
  readonly operations: Operations;
}

/**
 * Compares the kernel's table with a state; of large maps, adds the slots that are missing.
 *
 * @returns `undefined` where everything has to be replaced: nft cannot read the table, the structure
 *   differs in what parts cannot mend, or slots of a large map have to go
 */
export async function reconcile(
  script: FullScript,
  options: ReconcileOptions,
): Promise<Reconciliation | undefined> {
  const { nft, clock, mostListed } = options;
  const turns = new Turns(clock);
  const objects = await turns.run(script.objects());
  const large = new Set(
    objects.sets.filter(({ name, keyType }) =>
      keyType === "slot" && (objects.elementCounts.get(name) ?? 0) > mostListed
    ).map(({ name }) => name),
  );
  const held = await readBack(objects, { nft, turns, isListed: (set) => !large.has(set) });
  if (!held) return undefined;
  const desired = await turns.run(desiredBut(large, objects));
  const wanted = await turns.run(readingObjects(desired));
  const differences = await turns.run(comparing(wanted, held, { exactSlots: true }));
  // What leads to other slots than before may leave some behind, and none of them can be found.
  const leadsToSlots = new Set(
    objects.sets.filter(({ role }) => role === "services" || role === "shortCircuits")
      .map(({ name }) => name),
  );
  // The chain of a port that takes turns has the number of its slots in a rule, and not in its name.
  for (const { role, name, rules } of objects.chains) {
    const [first = ""] = rules;
    const isOfLarge = role === "dnat" && large.has(first.slice(first.lastIndexOf("@") + 1));
    if (isOfLarge) leadsToSlots.add(`chain ${name}`);
  }
  const leavesSlots = large.size > 0 &&
    differences.some(({ in: place, type }) => type !== "missing" && leadsToSlots.has(place));
  const operations = leavesSlots ? undefined : mend({ desired, held, differences });
  if (!operations) return undefined;
  const slots = objects.slots.filter(({ set }) => large.has(set.name));
  return await isTaken(() => addSlots(slots, { ...options, turns }))
    ? { objects, operations }
    : undefined;
}

/** The kernel's table, with the elements of those sets alone that can be listed. */
async function readBack(
  { sets }: TableObjects,
  { nft, turns, isListed }: Pick<ReconcileOptions, "nft"> & {
    readonly turns: Turns;
    readonly isListed: (set: string) => boolean;
  },
): Promise<Contents | undefined> {
  const parse = (listing: string) => turns.run(parsingListing(listing));
  const structure = await parse(await readable(() => nft.listStructure()));
  if (!structure) return undefined;
  const elements = new Map(structure.sets);
  const remarks = new Map(structure.remarks);
  for (const { kind, name } of sets) {
    if (!elements.has(name) || !isListed(name)) continue;
    // The kernel's own elements stay, whatever they are.
    if (isOfKernel(name)) continue;
    const listing = await parse(await readable(() => nft.listSet({ kind, name })));
    const [listed, besides] = [listing?.sets.get(name), listing?.remarks.get(name)];
    if (!listed) return undefined;
    elements.set(name, listed);
    if (besides) remarks.set(name, besides);
  }
  return { ...structure, sets: elements, remarks };
}

/** The desired objects without the slots of large maps. */
function* desiredBut(
  large: ReadonlySet<string>,
  objects: TableObjects,
): Generator<undefined, DesiredObjects> {
  const elements = [...objects.elements];
  let count = 0;
  for (const slots of objects.slots) {
    if (large.has(slots.set.name)) continue;
    for (const each of slotElements(slots)) elements.push(each);
    count += slots.destinations.length;
    if (count < BATCH) continue;
    count = 0;
    yield;
  }
  return { ...objects, elements };
}

/** Slots that are there with other data are a conflict. */
async function addSlots(
  slots: readonly Slots[],
  { nft, turns, mark }: Pick<ReconcileOptions, "nft" | "mark"> & { readonly turns: Turns },
): Promise<void> {
  let writing = Promise.resolve();
  for (const text of portions(slots)) {
    if (text === undefined) {
      await turns.giveWay();
      continue;
    }
    await writing;
    writing = nft.apply(text + mark());
    writing.catch(() => {});
  }
  await writing;
}

/**
 * Whether a step was taken; where not, everything can still be replaced. The kernel tells of each
 * element that does not fit to what it holds, and very many are an error of another kind (ENOBUFS).
 */
export async function isTaken(step: () => Promise<void>): Promise<boolean> {
  try {
    await step();
    return true;
  } catch (error) {
    if (error instanceof ApplyError) return false;
    throw error;
  }
}

/** @yields a transaction, or `undefined` where other work can be done */
function* portions(slots: readonly Slots[]): Generator<string | undefined, void> {
  const lines = new Map<string, string[]>();
  let [count, sinceTurn] = [0, 0];
  for (const each of slots) {
    const { set: { name }, destinations } = each;
    const list = lines.get(name) ?? [];
    for (const line of renderSlots([each])) list.push(line);
    lines.set(name, list);
    count += destinations.length;
    sinceTurn += destinations.length;
    if (count >= PORTION_WEIGHT) {
      yield addCommands(lines);
      lines.clear();
      count = 0;
    }
    if (sinceTurn < BATCH) continue;
    yield;
    sinceTurn = 0;
  }
  if (count > 0) yield addCommands(lines);
}

function addCommands(lines: ReadonlyMap<string, readonly string[]>): string {
  return [...lines].map(([name, elements]) =>
    `add element ${TABLE} ${name} {\n${elements.join(",\n")}\n}\n`
  ).join("");
}
