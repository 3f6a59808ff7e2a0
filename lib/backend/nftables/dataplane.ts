/** Makes nftables scripts of the desired state, and applies them. */
import type { Progress, ScriptWriter } from "../../model/kernel/dataplane.ts";
import {
  changesFixedRules,
  type DesiredState,
  type StateChange,
} from "../../model/kernel/desired.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import { countElements, Counts, type Delta, diffing, NOTHING } from "./delta.ts";
import type { Nft } from "./nft.ts";
import { NO_CONTENTS, parsingListing } from "./read.ts";
import { reconcile } from "./reconcile.ts";
import { frontendOfKey } from "./sets.ts";
import { elementId, elementsOf, type Entry, frontendOf, sizeOf, sliceOf, TABLE } from "./table.ts";
import {
  FullScript,
  type PartialScript,
  PORTION_WEIGHT,
  type PortionsOptions,
  replacing,
  toPartialScript,
  writePortions,
} from "./write.ts";

export interface NftablesOptions extends Partial<Pick<PortionsOptions, "clock" | "logger">> {
  /** Returns commands for the beginning of the transaction after which packets meet a full script. */
  readonly prologue?: () => Promise<string>;
  /** The limit of elements that one step deletes, if packets do not reach them. */
  readonly share?: number;
  readonly weight?: number;
}

export type NftScript = FullScript | PartialScript;

/** Never yields, and does not log. */
const DEFAULTS = {
  clock: { monotonic: () => 0, sleep: () => Promise.resolve() },
  logger: { info: () => {} },
  prologue: () => Promise.resolve(""),
  share: Infinity,
  weight: PORTION_WEIGHT,
};

/** Milliseconds that a transaction waits for a reading. */
const LONGEST_WAIT = 2_000;

/** Writes the table of all Services. A full script is the delta from an empty table. */
export class NftablesDataplane implements ScriptWriter<NftScript> {
  readonly #nft: Nft;
  readonly #options: Required<NftablesOptions>;
  #counts = new Counts();
  readonly #deferred = new DeferredDeletes();
  /** True if this process wrote the table, and did not read it back. */
  hasWritten = false;
  progress: Progress | undefined;
  /** Waits for a reading that an earlier transaction has disturbed. */
  #yieldToReading: (() => Promise<void>) | undefined;

  constructor(nft: Nft, options: NftablesOptions = {}) {
    this.#nft = nft;
    this.#options = { ...DEFAULTS, ...options };
  }

  get elements(): ReadonlyMap<string, number> {
    return this.#counts.elements;
  }

  /** Returns true if the table is written and read in portions, and never listed whole. */
  get isLarge(): boolean {
    let sum = 0;
    for (const count of this.#counts.elements.values()) sum += count;
    return sum > this.#options.weight;
  }

  get isUnfinished(): boolean {
    return !this.#deferred.isEmpty;
  }

  get ruleCounts(): ReadonlyMap<string, number> {
    return this.#counts.rules;
  }

  full(state: DesiredState): FullScript {
    return new FullScript(state);
  }

  *changing(
    change: StateChange,
    state: DesiredState,
  ): Generator<undefined, PartialScript | undefined> {
    if (changesFixedRules(change)) return undefined;
    const delta = yield* diffing(change.services.values(), {
      node: state.node,
      nodeChange: change.node,
      references: this.#counts.references,
    });
    const { share, weight } = this.#options;
    const limited = this.#deferred.limit(delta, share);
    yield;
    return yield* toPartialScript(limited, weight);
  }

  /** Returns a script that restores the applied state, so the counts stay. */
  *repairing(delta: Delta): Generator<undefined, PartialScript> {
    const script = yield* toPartialScript(this.#deferred.leaveOut(delta), this.#options.weight);
    return { ...script, delta: NOTHING };
  }

  /** Reads while scripts are applied. nft begins again after each transaction, so later transactions wait a while. */
  async readDuringSyncs<T>(read: () => Promise<T>): Promise<T> {
    const enough = new AbortController();
    let isDisturbed = false;
    const wait = async () => {
      if (isDisturbed) await this.#options.clock.sleep(LONGEST_WAIT, enough.signal);
      isDisturbed = true;
    };
    this.#yieldToReading = wait;
    try {
      return await read();
    } finally {
      enough.abort();
      if (this.#yieldToReading === wait) this.#yieldToReading = undefined;
    }
  }

  async apply(script: NftScript, checkpoint = () => {}): Promise<void> {
    if (script.kind === "partial" && script.text === "") return;
    await this.#yieldToReading?.();
    await (script.kind === "full" ? this.#replace(script, checkpoint) : this.#step(script));
  }

  async #replace(script: FullScript, checkpoint: () => void): Promise<void> {
    const { weight, hasAffinity, hasRanges } = script.measure();
    // A packet does not find source ranges of a new table until the end of the transaction (kernel 6.18, `nft_pipapo`).
    const isKept = weight > this.#options.weight || this.isLarge || hasRanges;
    const write = async () =>
      (await this.#nft.listHookedTables()).includes(TABLE)
        ? await this.#reconcile(script, checkpoint)
        : await this.#writePortions(script, checkpoint);
    this.#counts = isKept && await write() ||
      await this.#replaceAtOnce(script, { hasAffinity, checkpoint });
    this.#deferred.clear();
  }

  async #replaceAtOnce(
    script: FullScript,
    { hasAffinity, checkpoint }: {
      readonly hasAffinity: boolean;
      readonly checkpoint: () => void;
    },
  ): Promise<Counts> {
    checkpoint();
    const prologue = await this.#options.prologue();
    // Clients must stay on their endpoints.
    const listing = hasAffinity ? await this.#nft.listSets() : "";
    const turns = new Turns(this.#options.clock);
    const clients = await turns.run(parsingListing(listing)) ?? NO_CONTENTS;
    let counts = new Counts();
    await this.#nft.stream(() => {
      counts = new Counts();
      return replacing(script, { prologue, clients, counts });
    });
    await this.#nft.commit(script.cleanup);
    this.hasWritten = true;
    return counts;
  }

  /** Writes the differences in a table that packets meet. @returns `undefined` if the table must be replaced */
  async #reconcile(script: FullScript, checkpoint: () => void): Promise<Counts | undefined> {
    const { logger, prologue } = this.#options;
    const table = await reconcile(script, { ...this.#options, nft: this.#nft, checkpoint });
    if (!table) return undefined;
    // Last: until our table has the state, another proxy's table may be more complete.
    const commands = await prologue();
    if (commands !== "") await this.#nft.apply(commands);
    const { operations } = script;
    if (operations > 0) logger.info("read the table back, and wrote what differed", { operations });
    const counts = new Counts();
    const { sets: addSets, chains: addChains, elements: addElements, references } = table;
    counts.add({ ...NOTHING, addSets, addChains, addElements, references });
    return counts;
  }

  async #writePortions(script: FullScript, checkpoint: () => void): Promise<Counts> {
    const counts = new Counts();
    try {
      await writePortions(script, {
        ...this.#options,
        nft: this.#nft,
        counts,
        onProgress: (progress) => this.progress = progress,
        checkpoint,
      });
      await this.#nft.commit(script.cleanup);
      this.hasWritten = true;
      return counts;
    } finally {
      this.progress = undefined;
    }
  }

  async #step({ transactions, delta }: PartialScript): Promise<void> {
    // If a transaction fails, the counts stay as they were, and a full script follows.
    for (const text of transactions) await this.#nft.commit(text);
    this.#counts.add(delta);
  }
}

/**
 * Elements that packets do not reach after their frontend is gone or has fewer endpoints. Source ranges are such
 * elements after their frontend has left the firewalls.
 */
const UNREACHABLE: ReadonlySet<string> = new Set(["endpoints", "localEndpoints", "hairpins"]);

/** Spreads the deletion of very many elements over several steps, so that other Services need not wait. */
export class DeferredDeletes {
  /** By `elementId`. Slots wait as a whole until a slot of their frontend is added. */
  readonly #waiting = new Map<string, Entry>();
  /** True if the last step had its own changes, and did not delete waiting elements. */
  #hasSkipped = false;

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  clear(): void {
    this.#waiting.clear();
  }

  /** Returns a repair without the deletions that wait. */
  leaveOut(repair: Delta): Delta {
    for (const each of repair.deleteElements) this.#separate(each);
    const isDue = (each: Entry) => !this.#waiting.has(elementId(each));
    return { ...repair, deleteElements: repair.deleteElements.filter(isDue) };
  }

  /** Limits deletions to `most`, unless packets reach more. Steps without changes and every second step do the rest. */
  limit(delta: Delta, most: number): Delta {
    const { deleteElements, addElements, deleteSets } = delta;
    if (this.isEmpty && countElements({ ...NOTHING, deleteElements }) <= most) return delta;
    const deletedSets = new Set(deleteSets.map(({ name }) => name));
    for (const each of addElements) this.#separate(each);
    const added = new Set([...elementsOf(addElements)].map(elementId));
    const refilled = new Set(addElements.map(slotsId));
    const checked = frontendsIn("firewalls", addElements);
    const unchecked = frontendsIn("firewalls", deleteElements).difference(checked);
    const due: Entry[] = [];
    let room = most;
    const take = (entry: Entry | undefined) => {
      if (!entry) return;
      due.push(entry);
      room -= sizeOf(entry);
    };
    const spread = (entry: Entry) => {
      const [now, later] = divide(entry, room);
      take(now);
      if (later) this.#waiting.set(elementId(later), later);
    };
    for (const id of added) take(this.#remove(id));
    for (const [id, each] of deletedSets.size + checked.size > 0 ? this.#waiting : []) {
      if (deletedSets.has(each.set.name)) this.#remove(id);
      else if (checked.has(frontendOf(each))) take(this.#remove(id));
    }
    for (const entry of deleteElements) {
      const { name, role } = entry.set;
      const isUnreachable = role === "sourceRanges"
        ? unchecked.has(frontendOf(entry))
        : UNREACHABLE.has(role);
      for (const each of refilled.has(slotsId(entry)) ? elementsOf([entry]) : [entry]) {
        if (!isUnreachable || added.has(elementId(each))) take(each);
        else if (!deletedSets.has(name)) spread(each);
      }
    }
    this.#hasSkipped = !this.#hasSkipped && due.length + addElements.length > 0;
    for (const [id, entry] of this.#hasSkipped ? [] : this.#waiting) {
      if (room <= 0) break;
      this.#waiting.delete(id);
      spread(entry);
    }
    return { ...delta, deleteElements: due };
  }

  /** Lets each slot of the entry's frontend wait alone. */
  #separate(entry: Entry): void {
    const slots = this.#remove(slotsId(entry));
    for (const each of slots ? elementsOf([slots]) : []) this.#waiting.set(elementId(each), each);
  }

  #remove(id: string): Entry | undefined {
    const entry = this.#waiting.get(id);
    this.#waiting.delete(id);
    return entry;
  }
}

/** Returns the id of all slots of the entry's frontend. */
function slotsId({ set, key }: Entry): string {
  return elementId({ type: "slots", set, key: frontendOfKey(key) ?? key });
}

/** Returns as many elements as there is room for, and the rest. */
function divide(entry: Entry, room: number): readonly (Entry | undefined)[] {
  if (room <= 0) return [undefined, entry];
  if (entry.type === "element" || sizeOf(entry) <= room) return [entry];
  return [sliceOf(entry, 0, room), sliceOf(entry, room)];
}

function frontendsIn(role: string, entries: readonly Entry[]): ReadonlySet<string> {
  return new Set(entries.filter(({ set }) => set.role === role).map(frontendOf));
}
