/** Writes what differs in a large table that packets meet: reads it back set by set, but for slots. */
import { Turns } from "../../model/ports/in_turns.ts";
import { append } from "../../model/values/lists.ts";
import { countElements, countOperations, cut, type Delta, NOTHING, tableOf } from "./delta.ts";
import { mend } from "./mend.ts";
import { comparing, isOfKernel } from "./compare.ts";
import { type Contents, NO_CONTENTS, parsingListing, readingTable } from "./read.ts";
import { type Nft, readable } from "./nft.ts";
import type { Element, Table } from "./table.ts";
import { setNamed, type TableSet } from "./sets.ts";
import { HeldSlotsFinder, isTaken, leadsToSlots, SlotWriter } from "./slots.ts";
import { renderingDelta } from "./text.ts";
import type { FullScript, PortionsOptions } from "./write.ts";

interface ReconcileOptions extends Pick<PortionsOptions, "clock" | "weight" | "checkpoint"> {
  readonly nft: Pick<Nft, "commit" | "commitAfter" | "listStructure" | "listSet">;
}

/**
 * Writes what differs: new slots before what leads to them, old ones after it. The script counts all but slots.
 * @returns `undefined` if nft cannot read the table, or parts do not suffice
 */
export async function reconcile(
  script: FullScript,
  { nft, clock, weight, checkpoint }: ReconcileOptions,
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
  const { structure, differences, heldSlots } = found;
  const desired = { ...table, elements: [...elements.values()].flat() };
  const delta = mend({ desired, held: structure, differences });
  if (!delta) return undefined;
  script.bytes = 0;
  script.operations = countOperations(delta);
  const apply = async (text: string) => {
    await nft.commit(text);
    checkpoint();
  };
  const applyAfter = async (before: Promise<void>, text: string) => {
    await nft.commitAfter(before, text);
    checkpoint();
  };
  const step = async (part: Delta) => {
    for (const text of await turns.run(renderingDelta(part))) {
      await apply(text);
      script.bytes += text.length;
    }
  };
  const options = { held: heldSlots, turns, portion: Math.ceil(weight / 2) };
  const { addSets } = delta;
  const others = { ...delta, addSets: [] };
  // Maps that go may be looked into until the chains that all packets meet are other ones.
  const isOnePart = countElements(others) <= weight && others.deleteSets.length === 0;
  // Nothing would find the slots that an end in between left: no chain tells of them any more.
  const toTheEnd = (text: string) => nft.commit(text);
  const isWritten = await isTaken(async () => {
    await step({ ...NOTHING, addSets });
    await new SlotWriter({ ...options, apply, applyAfter }).put(slots);
    for (const part of isOnePart ? [others] : cut(others, weight)) await step(part);
    const { sets } = table;
    await new SlotWriter({ ...options, apply: toTheEnd, applyAfter }).deleteLeft({ slots, sets });
  });
  return isWritten ? table : undefined;
}

/**
 * Reads set by set, and keeps only differences. @returns `undefined` if nft cannot read the table, or it lacks frontends
 */
async function readBack(
  { sets, chains, elements }: Pick<Table, "sets" | "chains"> & {
    readonly elements: ReadonlyMap<string, readonly Element[]>;
  },
  { nft, turns, checkpoint }: Pick<ReconcileOptions, "nft" | "checkpoint"> & {
    readonly turns: Pick<Turns, "run">;
  },
) {
  const read = async (list: () => Promise<string>) =>
    await turns.run(parsingListing(await readable(list)));
  const structure = await read(() => nft.listStructure());
  if (!structure || lacksFrontends(sets, structure)) return undefined;
  const wanted = await turns.run(readingTable({ sets, chains, elements: [] }));
  const differences = await turns.run(comparing(wanted, structure));
  const finder = new HeldSlotsFinder(structure.chains);
  for (const set of setsToRead(sets, structure)) {
    const { name } = set;
    const desired = await turns.run(
      readingTable({ sets: [set], chains: [], elements: elements.get(name) ?? [] }),
    );
    const isThere = structure.sets.has(name);
    const held = isThere ? await read(() => nft.listSet(set)) : NO_CONTENTS;
    checkpoint();
    if (!held || isThere && !held.sets.has(name)) return undefined;
    if (leadsToSlots(set)) await turns.run(finder.looking(set, held));
    // Another set comes or goes with its elements.
    if (!isThere || !wanted.sets.has(name)) continue;
    append(differences, await turns.run(comparing(desired, held)));
  }
  return { structure, differences, heldSlots: finder.found };
}

/** Returns true for an older version's table, whose slots have no map of frontends. */
function lacksFrontends(sets: readonly TableSet[], { sets: there }: Contents): boolean {
  const slots = [...there.keys()].flatMap((name) => setNamed(name) ?? [])
    .filter(({ keyType }) => keyType === "slot");
  const families = new Set(slots.map(({ family }) => family));
  return sets.some((set) => leadsToSlots(set) && families.has(set.family) && !there.has(set.name));
}

function setsToRead(sets: readonly TableSet[], { sets: there }: Contents): readonly TableSet[] {
  const wanted = new Set(sets.map(({ name }) => name));
  // Maps that go tell how many slots their frontends have.
  const going = [...there.keys()].flatMap((name) => wanted.has(name) ? [] : setNamed(name) ?? [])
    .filter(leadsToSlots);
  // The kernel's own elements stay, whatever they are.
  return [...sets, ...going].filter(({ name, keyType }) => keyType !== "slot" && !isOfKernel(name));
}
