/** Repairs a large table that packets meet: reads it back set by set, without slots, and writes the differences. */
import { Turns } from "../../model/ports/in_turns.ts";
import { append, chunks } from "../../model/values/lists.ts";
import { countOperations, type Delta, NOTHING, partsOf, tableOf } from "./delta.ts";
import { comparing, isFilledByKernel, mend } from "./compare.ts";
import { type Contents, parsingListing, readingTable } from "./read.ts";
import { isRefusal, type Nft, outputOrEmpty } from "./nft.ts";
import { type Element, elementId, sizeOf, sliceOf, type Slots, type Table } from "./table.ts";
import { parseKey, setNamed, type TableSet } from "./sets.ts";
import { renderingDelta, renderingElements } from "./text.ts";
import { type FullScript, Overlap, type PortionsOptions } from "./write.ts";

interface ReconcileOptions extends Pick<PortionsOptions, "clock" | "weight" | "checkpoint"> {
  readonly nft: Pick<Nft, "commit" | "commitAfter" | "listStructure" | "listSet">;
}

/** Writes the differences, new slots first, old slots last. @returns `undefined` if only a new table removes them */
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
  const step = async (changes: Delta) => {
    for (const part of partsOf(changes, weight)) {
      for (const text of await turns.run(renderingDelta(part))) {
        await nft.commit(text);
        checkpoint();
        script.bytes += text.length;
      }
    }
  };
  const portion = Math.ceil(weight / 2);
  const writer = new SlotWriter({ nft, checkpoint, turns, held: heldSlots, portion });
  const { addSets, deleteChains, deleteSets } = delta;
  const isWritten = await isTaken(async () => {
    await step({ ...NOTHING, addSets });
    await writer.put(slots);
    await step({ ...delta, addSets: [], deleteChains: [], deleteSets: [] });
    // Last: packets may look into old maps until the common chains are rewritten.
    await step({ ...NOTHING, deleteChains, deleteSets });
    await writer.deleteOrphans({ slots, sets: table.sets });
  });
  return isWritten ? table : undefined;
}

/** Reads set by set, and keeps only the differences. @returns `undefined` if a part cannot be read or is missing */
async function readBack(
  { sets, chains, elements }: Pick<Table, "sets" | "chains"> & {
    readonly elements: ReadonlyMap<string, readonly Element[]>;
  },
  { nft, turns, checkpoint }: Pick<ReconcileOptions, "nft" | "checkpoint"> & {
    readonly turns: Pick<Turns, "run">;
  },
) {
  const read = async (list: () => Promise<string>) =>
    await turns.run(parsingListing(await outputOrEmpty(list)));
  const structure = await read(() => nft.listStructure());
  if (!structure) return undefined;
  const wanted = await turns.run(readingTable({ sets, chains, elements: [] }));
  const differences = await turns.run(comparing(wanted, structure));
  const finder = new HeldSlotsFinder(structure.chains);
  for (const set of sets) {
    const { name, keyType } = set;
    // A set that is added is written with its elements. Elements that the kernel itself adds stay as they are.
    if (!structure.sets.has(name) || keyType === "slot" || isFilledByKernel(name)) continue;
    const desired = await turns.run(
      readingTable({ sets: [set], chains: [], elements: elements.get(name) ?? [] }),
    );
    const held = await read(() => nft.listSet(set));
    checkpoint();
    if (!held?.sets.has(name)) return undefined;
    if (leadsToSlots(set)) await turns.run(finder.looking(set, held));
    append(differences, await turns.run(comparing(desired, held)));
  }
  return { structure, differences, heldSlots: finder.found };
}

/** The number of slots that the kernel should have of a frontend. */
interface HeldSlots extends Pick<Slots, "set" | "key"> {
  readonly count: number;
}

interface SlotsOptions extends Pick<ReconcileOptions, "checkpoint"> {
  readonly nft: Pick<Nft, "commit" | "commitAfter">;
  /** By `elementId`. */
  readonly held: ReadonlyMap<string, HeldSlots>;
  readonly turns: Pick<Turns, "run">;
  /** The limit of slots in one transaction, where a replaced slot takes two operations. */
  readonly portion: number;
}

type Write = (slots: readonly Slots[]) => Promise<void>;

/** The data of a deleted slot, which nft does not need. */
const NOWHERE = { address: "", port: 0, local: false, hairpin: false };

/**
 * Writes slots without reading them: nft takes 2 kB for each element that it lists. The kernel accepts an element that
 * it already has, and refuses a key with other data. After a refusal, the slots of the portion are replaced. The next
 * portions are replaced without a trial: twice as many after each failed trial.
 */
class SlotWriter {
  constructor(private readonly options: SlotsOptions) {}

  /** Writes slots. A packet always finds the old or the new endpoint. */
  async put(slots: readonly Slots[]): Promise<void> {
    const { nft, turns, portion } = this.options;
    const overlap = new Overlap();
    let [untried, nextUntried] = [0, 1];
    for (const each of cutSlots(slots, portion)) {
      const isTried = untried === 0;
      if (!isTried) untried--;
      const text = await turns.run(isTried ? rendering("add", each) : this.#replacing(each));
      await overlap.begin(async (previous) => {
        const isDone = await isTaken(() => this.#checked(nft.commitAfter(previous, text)));
        if (isTried) [untried, nextUntried] = isDone ? [0, 1] : [nextUntried, nextUntried * 2];
        if (isDone) return;
        // nft may have failed before the previous step ended.
        await previous;
        await (isTried ? this.#replace(each) : this.#add(each));
      });
    }
    await overlap.end();
  }

  /** Deletes slots that frontends no longer lead to, without a checkpoint: a later run could not find them. */
  async deleteOrphans(
    { slots, sets }: { readonly slots: readonly Slots[]; readonly sets: readonly TableSet[] },
  ): Promise<void> {
    const { held, turns, portion } = this.options;
    const there = new Set(sets.map(({ name }) => name));
    const counts = await turns.run(counting(slots));
    const left = function* (): Generator<Slots, void> {
      for (const [id, { set, key, count }] of held) {
        const first = counts.get(id) ?? 0;
        // A deleted map has taken its slots with it.
        if (first >= count || !there.has(set.name)) continue;
        const destinations = Array<typeof NOWHERE>(count - first).fill(NOWHERE);
        yield { type: "slots", set, key, first, destinations };
      }
    };
    for (const each of cutSlots(left(), portion)) await this.#remove(each);
  }

  readonly #add: Write = async (slots) => {
    if (!await this.#isTaken(rendering("add", slots))) await this.#replace(slots);
  };

  readonly #replace: Write = async (slots) => {
    if (await this.#isTaken(this.#replacing(slots))) return;
    // Another program may have deleted slots, or added slots of its own.
    if (countOf(slots) > 1) return await inHalves(slots, this.#add);
    const { nft, turns } = this.options;
    const deletion = await turns.run(rendering("delete", slots));
    await this.#checked(nft.commit(deletion + await turns.run(rendering("add", slots))));
  };

  readonly #remove: Write = async (slots) => {
    const { nft, turns } = this.options;
    const text = await turns.run(rendering("delete", slots));
    if (await isTaken(() => nft.commit(text))) return;
    // A single slot that the kernel refuses to delete is gone already.
    if (countOf(slots) > 1) await inHalves(slots, this.#remove);
  };

  async #isTaken(rendered: Generator<undefined, string>): Promise<boolean> {
    const { nft, turns } = this.options;
    const text = await turns.run(rendered);
    return await isTaken(() => this.#checked(nft.commit(text)));
  }

  async #checked(transaction: Promise<void>): Promise<void> {
    await transaction;
    this.options.checkpoint();
  }

  /** Replaces the slots that the kernel should have, and adds the remaining slots. */
  *#replacing(slots: readonly Slots[]): Generator<undefined, string> {
    const held = slots.flatMap((each) => {
      const count = (this.options.held.get(elementId(each))?.count ?? 0) - each.first;
      return count > 0 ? [sliceOf(each, 0, count)] : [];
    });
    return (yield* rendering("delete", held)) + (yield* rendering("add", slots));
  }
}

function* counting(slots: readonly Slots[]): Generator<undefined, ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const each of slots) {
    yield;
    counts.set(elementId(each), sizeOf(each));
  }
  return counts;
}

function* rendering(
  verb: "add" | "delete",
  slots: readonly Slots[],
): Generator<undefined, string> {
  return (yield* renderingElements(verb, slots)).join("");
}

function cutSlots(slots: Iterable<Slots>, most: number): Generator<readonly Slots[], void> {
  return chunks(pieces(slots, most), { weigh: sizeOf, most });
}

function* pieces(slots: Iterable<Slots>, most: number): Generator<Slots, void> {
  for (const each of slots) {
    for (let at = 0; at < sizeOf(each); at += most) yield sliceOf(each, at, at + most);
  }
}

async function inHalves(slots: readonly Slots[], write: Write): Promise<void> {
  for (const half of cutSlots(slots, Math.ceil(countOf(slots) / 2))) await write(half);
}

function countOf(slots: readonly Slots[]): number {
  return slots.reduce((sum, each) => sum + sizeOf(each), 0);
}

/** Returns false if the kernel refused a step, also for ENOBUFS: too many refused elements overflow nft's socket. */
async function isTaken(step: () => Promise<void>): Promise<boolean> {
  try {
    await step();
    return true;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

function leadsToSlots({ role }: Pick<TableSet, "role">): boolean {
  return role === "services" || role === "shortCircuits";
}

/** Matches a rule that chooses a slot in a map, with the number of slots. */
const CHOICE = / mod (\d+)\b.* map @(\S+)/;
const NEXT = /\b(?:goto|jump) (\S+)/;

/** A limit, because another program's rule may name any number. */
const MOST_SLOTS = 100_000;

/** Finds the slots that the kernel should have, by the chains that frontends lead to. */
class HeldSlotsFinder {
  readonly #counts = new Map<string, Map<string, number>>();
  readonly found = new Map<string, HeldSlots>();

  constructor(private readonly chains: Contents["chains"]) {}

  /** Looks at all elements of a set that `leadsToSlots`. @yields when other work can run */
  *looking(frontends: TableSet, held: Contents): Generator<undefined, void> {
    for (const [text, { data }] of held.sets.get(frontends.name) ?? []) {
      yield;
      const key = parseKey(frontends, text);
      if (key?.type !== "frontend") continue;
      for (const [map, count] of this.#behind(data)) {
        const set = setNamed(map);
        if (set?.keyType !== "slot") continue;
        const id = elementId({ type: "slots", set, key });
        if (count > (this.found.get(id)?.count ?? 0)) this.found.set(id, { set, key, count });
      }
    }
  }

  /** Returns the number of slots of each map that a rule or verdict leads to. */
  #behind(rule: string): ReadonlyMap<string, number> {
    const known = this.#counts.get(rule);
    if (known) return known;
    const counts = new Map<string, number>();
    this.#counts.set(rule, counts);
    const [, mod, choice] = CHOICE.exec(rule) ?? [];
    if (choice !== undefined) counts.set(choice, Math.min(Number(mod), MOST_SLOTS));
    const [, chain = ""] = NEXT.exec(rule) ?? [];
    for (const each of this.chains.get(chain) ?? []) {
      for (const [map, count] of this.#behind(each)) {
        counts.set(map, Math.max(count, counts.get(map) ?? 0));
      }
    }
    return counts;
  }
}
