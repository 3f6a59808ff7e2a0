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
import { inTurns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { mend } from "./drift/mend.ts";
import { compareContents, isOfKernel } from "./kernel/compare.ts";
import { type Contents, contentsOf, type DesiredObjects, parseListing } from "./kernel/contents.ts";
import type { Nft } from "./kernel/nft.ts";
import { type Operations, slotElements } from "./script/diff.ts";
import { type FullScript, PORTION_WEIGHT, type TableObjects } from "./script/full_script.ts";
import { type Slots, TABLE } from "./script/objects.ts";
import { renderSlots } from "./script/table_text.ts";
import type { TableSet } from "./script/sets.ts";

/** What it takes to reconcile. */
export interface ReconcileOptions {
  readonly nft: Pick<Nft, "apply" | "listStructure" | "listSet">;
  readonly clock: Pick<Clock, "sleep">;
  /** Slots of a map that is listed, at most. */
  readonly mostListed: number;
  /** The commands that mark one more transaction as ours. */
  readonly mark: () => string;
}

/** Most slots of a map that is listed: nft takes 120 MB for them. */
export const MOST_LISTED = 70_000;

/** What a table needs to be in a state. */
export interface Reconciliation {
  readonly objects: TableObjects;
  readonly operations: Operations;
}

/**
 * Compares the kernel's table with a state; of large maps, adds the slots that are missing.
 *
 * @returns `undefined` where everything has to be replaced: the structure differs in what parts cannot
 *   mend, or slots of a large map have to go
 * @throws {ApplyError} where nft fails
 */
export async function reconcile(
  script: FullScript,
  options: ReconcileOptions,
): Promise<Reconciliation | undefined> {
  const { nft, clock, mostListed } = options;
  const objects = await inTurns(script.objects(), clock);
  const large = new Set(
    objects.sets.filter(({ name, keyType }) =>
      keyType === "slot" && (objects.elementCounts.get(name) ?? 0) > mostListed
    ).map(({ name }) => name),
  );
  const held = await readBack(objects, { nft, isListed: (set) => !large.has(set) });
  if (!held) return undefined;
  const desired = desiredBut(large, objects);
  const differences = compareContents(contentsOf(desired), held, { exactSlots: true });
  // What leads to other slots than before may leave some behind, and none of them can be found.
  const leadsToSlots = new Set(
    objects.sets.filter(({ role }) => role === "services" || role === "shortCircuits")
      .map(({ name }) => name),
  );
  const leavesSlots = large.size > 0 &&
    differences.some(({ in: place, type }) => type !== "missing" && leadsToSlots.has(place));
  const operations = leavesSlots ? undefined : mend({ desired, held, differences });
  if (!operations) return undefined;
  const slots = objects.slots.filter(({ set }) => large.has(set.name));
  return await isTaken(() => addSlots(slots, options)) ? { objects, operations } : undefined;
}

/** The kernel's table, with the elements of those sets alone that can be listed. */
async function readBack(
  { sets }: TableObjects,
  { nft, isListed }: {
    readonly nft: ReconcileOptions["nft"];
    readonly isListed: (set: string) => boolean;
  },
): Promise<Contents | undefined> {
  const structure = parseListing(await nft.listStructure());
  if (!structure) return undefined;
  const elements = new Map(structure.sets);
  const remarks = new Map(structure.remarks);
  for (const { kind, name } of sets) {
    if (!elements.has(name) || !isListed(name)) continue;
    // The kernel's own elements stay, whatever they are.
    if (isOfKernel(name)) continue;
    const listing = parseListing(await nft.listSet({ kind, name }));
    const [listed, besides] = [listing?.sets.get(name), listing?.remarks.get(name)];
    if (!listed) return undefined;
    elements.set(name, listed);
    if (besides) remarks.set(name, besides);
  }
  return { ...structure, sets: elements, remarks };
}

/** The desired objects without the slots of large maps. */
function desiredBut(large: ReadonlySet<string>, objects: TableObjects): DesiredObjects {
  const slots = objects.slots.filter(({ set }) => !large.has(set.name)).flatMap(slotElements);
  return { ...objects, elements: [...objects.elements, ...slots] };
}

/** Slots that are there with other data are a conflict. */
async function addSlots(
  slots: readonly Slots[],
  { nft, clock, mark }: ReconcileOptions,
): Promise<void> {
  let writing = Promise.resolve();
  for (const some of portions(slots)) {
    const text = [...Map.groupBy(some, ({ set }) => set)]
      .map(([set, members]) => addCommand(set, members)).join("");
    await writing;
    writing = nft.apply(text + mark());
    writing.catch(() => {});
    await clock.sleep(0);
  }
  await writing;
}

/** What the kernel says of a step that does not fit to what it holds. */
const CONFLICTS: ReadonlySet<string> = new Set(["conflict", "busy"]);

/**
 * @returns whether the kernel took a step; not where it does not fit to what it holds
 * @throws {ApplyError} where nft fails otherwise
 */
export async function isTaken(step: () => Promise<void>): Promise<boolean> {
  try {
    await step();
    return true;
  } catch (error) {
    if (error instanceof ApplyError && CONFLICTS.has(error.failure)) return false;
    throw error;
  }
}

function addCommand({ name }: Pick<TableSet, "name">, members: readonly Slots[]): string {
  return `add element ${TABLE} ${name} {\n${renderSlots(members).join(",\n")}\n}\n`;
}

function* portions(slots: readonly Slots[]): Generator<readonly Slots[]> {
  let some: Slots[] = [];
  let count = 0;
  for (const each of slots) {
    some.push(each);
    count += each.destinations.length;
    if (count < PORTION_WEIGHT) continue;
    yield some;
    [some, count] = [[], 0];
  }
  if (some.length > 0) yield some;
}
