/**
 * Writes the slots of a large table without reading them: nft takes 2 kB for each element that it lists. To add an
 * element again is no change, and one with other data is an error. Then the slots of the portion are replaced, and ever
 * more of the next portions untried, until a trial fits.
 */
import type { Turns } from "../../model/ports/in_turns.ts";
import { chunks } from "../../model/values/lists.ts";
import type { Contents } from "./read.ts";
import { parseKey, setNamed, type TableSet } from "./sets.ts";
import { isRefusal } from "./nft.ts";
import { elementId, sizeOf, type Slots } from "./table.ts";
import { renderingElements } from "./text.ts";
import { Overlap } from "./write.ts";

/** The number of slots that the kernel should have of a frontend. */
interface HeldSlots extends Pick<Slots, "set" | "key"> {
  readonly count: number;
}

interface SlotsOptions {
  /** By `elementId`. */
  readonly held: ReadonlyMap<string, HeldSlots>;
  readonly apply: (text: string) => Promise<void>;
  /** Gives a transaction to the kernel when another step has ended. */
  readonly applyAfter: (before: Promise<void>, text: string) => Promise<void>;
  readonly turns: Pick<Turns, "run">;
  /** The limit of slots of one transaction; to replace a slot is two operations. */
  readonly portion: number;
}

type Write = (slots: readonly Slots[]) => Promise<void>;

/** A deletion needs no data. */
const NOWHERE = { address: "", port: 0, local: false, hairpin: false };

export class SlotWriter {
  constructor(private readonly options: SlotsOptions) {}

  /** Writes slots. A packet finds the old or the new endpoint. */
  async put(slots: readonly Slots[]): Promise<void> {
    const { applyAfter, turns, portion } = this.options;
    const overlap = new Overlap();
    let [replacedUntried, untried] = [0, 1];
    for (const each of cut(slots, portion)) {
      const isTried = replacedUntried === 0;
      if (!isTried) replacedUntried--;
      const text = await turns.run(isTried ? rendering("add", each) : this.#replacing(each));
      await overlap.begin(async (before) => {
        const isDone = await isTaken(() => applyAfter(before, text));
        if (isTried) [replacedUntried, untried] = isDone ? [0, 1] : [untried, untried * 2];
        if (isDone) return;
        // nft may have ended before the step before.
        await before;
        await (isTried ? this.#replace(each) : this.#add(each));
      });
    }
    await overlap.end();
  }

  /** Deletes slots to which nothing leads any more. @param wanted the slots and sets of the table */
  async deleteLeft(
    { slots, sets }: { readonly slots: readonly Slots[]; readonly sets: readonly TableSet[] },
  ): Promise<void> {
    const { held, turns, portion } = this.options;
    const there = new Set(sets.map(({ name }) => name));
    const counts = await turns.run(counting(slots));
    const left = function* (): Generator<Slots, void> {
      for (const [id, { set, key, count }] of held) {
        const first = counts.get(id) ?? 0;
        // The slots of a map that goes went with it.
        if (first >= count || !there.has(set.name)) continue;
        const destinations = Array<typeof NOWHERE>(count - first).fill(NOWHERE);
        yield { type: "slots", set, key, first, destinations };
      }
    };
    for (const each of cut(left(), portion)) await this.#remove(each);
  }

  readonly #add: Write = async (slots) => {
    if (!await this.#isTaken(rendering("add", slots))) await this.#replace(slots);
  };

  readonly #replace: Write = async (slots) => {
    if (await this.#isTaken(this.#replacing(slots))) return;
    // Another program may have deleted some, or left others where none should be.
    if (countOf(slots) > 1) return await inHalves(slots, this.#add);
    const { apply, turns } = this.options;
    await apply(
      await turns.run(rendering("delete", slots)) + await turns.run(rendering("add", slots)),
    );
  };

  readonly #remove: Write = async (slots) => {
    const { apply, turns } = this.options;
    const text = await turns.run(rendering("delete", slots));
    try {
      await apply(text);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (countOf(slots) > 1) return await inHalves(slots, this.#remove);
      // Gone already.
      if (error.failure !== "conflict") throw error;
    }
  };

  async #isTaken(rendered: Generator<undefined, string>): Promise<boolean> {
    const text = await this.options.turns.run(rendered);
    return await isTaken(() => this.options.apply(text));
  }

  /** Replaces the slots that the kernel should have, and adds the others. */
  *#replacing(slots: readonly Slots[]): Generator<undefined, string> {
    const held = slots.flatMap((each) => {
      const count = (this.options.held.get(elementId(each))?.count ?? 0) - each.first;
      return count > 0 ? [{ ...each, destinations: each.destinations.slice(0, count) }] : [];
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

function cut(slots: Iterable<Slots>, most: number): Generator<readonly Slots[], void> {
  return chunks(pieces(slots, most), { weigh: sizeOf, most });
}

function* pieces(slots: Iterable<Slots>, most: number): Generator<Slots, void> {
  for (const each of slots) {
    const { first, destinations } = each;
    for (let at = 0; at < destinations.length; at += most) {
      yield { ...each, first: first + at, destinations: destinations.slice(at, at + most) };
    }
  }
}

async function inHalves(slots: readonly Slots[], write: Write): Promise<void> {
  for (const half of cut(slots, Math.ceil(countOf(slots) / 2))) await write(half);
}

function countOf(slots: readonly Slots[]): number {
  return slots.reduce((sum, each) => sum + sizeOf(each), 0);
}

/** Returns false if the kernel refused a step. Too many refused elements are another error (ENOBUFS). */
export async function isTaken(step: () => Promise<void>): Promise<boolean> {
  try {
    await step();
    return true;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

export function leadsToSlots({ role }: Pick<TableSet, "role">): boolean {
  return role === "services" || role === "shortCircuits";
}

/** Matches a rule that chooses one of so many slots in a map. */
const CHOICE = / mod (\d+)\b.* map @(\S+)/;
const NEXT = /\b(?:goto|jump) (\S+)/;

/** Another program's rule may name any number. */
const MOST_SLOTS = 100_000;

/** Finds the slots that the kernel should have, by the chains that frontends lead to. */
export class HeldSlotsFinder {
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

  /** Returns the number of slots by map, behind a rule or verdict. */
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
