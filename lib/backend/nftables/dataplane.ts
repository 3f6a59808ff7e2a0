/**
 * nftables as a dataplane: desired state to scripts, scripts to the kernel.
 *
 * @module
 */
import type { Dataplane, Progress } from "../../model/kernel/dataplane.ts";
import {
  changesFixedRules,
  type DesiredNode,
  type DesiredState,
  type StateChange,
  type StreamedState,
} from "../../model/kernel/desired.ts";
import { atOnce, Turns } from "../../model/ports/in_turns.ts";
import { diffingServices, type Operations } from "./script/diff.ts";
import { DeferredDeletes } from "./deferred_deletes.ts";
import type { Marks } from "./drift/marks.ts";
import {
  countElements,
  countRules,
  NO_COUNTS,
  type PartialScript,
  setCount,
  toPartialScript,
} from "./script/partial_script.ts";
import { FullScript, PORTION_WEIGHT } from "./script/full_script.ts";
import { fixedChains } from "./script/layout.ts";
import type { Nft } from "./kernel/nft.ts";
import { type PortionsOptions, writePortions } from "./portions.ts";
import { reconcile } from "./reconcile.ts";
import { type ObjectId, TABLE } from "./script/objects.ts";
import { nodeElementChanges } from "./script/script.ts";
import { renderStickyClients } from "./script/sticky.ts";
import { isLargeChange } from "./script/weight.ts";

/** What the dataplane works with besides nft. */
export interface NftablesOptions {
  /** Gives the commands that mark a transaction as ours. */
  readonly marks?: Pick<Marks, "next">;
  /**
   * Gives commands that go, before ours, into the transaction from which on packets meet a full
   * script: the end of another proxy's tables.
   */
  readonly prologue?: () => Promise<string>;
  /** The most elements that one step deletes, if packets do not reach them; absent: no bound. */
  readonly share?: number | undefined;
  /** How to write and read large tables; without it, a full script is always one transaction. */
  readonly portions?: Portions;
}

/** How large tables are written, and read back. */
export interface Portions extends Pick<PortionsOptions, "clock" | "logger"> {
  /** See `FullScript`. */
  readonly weight?: number;
}

type InParts = Portions & Pick<PortionsOptions, "checkpoint">;

/** What the dataplane makes and applies. */
export type NftScript = FullScript | PartialScript;

/** All work is done at one go. */
const NO_TURNS = { monotonic: () => 0, sleep: () => Promise.resolve() };

/** A reading that is under way. */
interface Beside {
  /** A transaction has come between already. */
  isDisturbed: boolean;
  readonly done: () => Promise<void>;
}

/**
 * The table of all services. A full script is the difference from nothing, so both kinds of
 * script come out of one code path.
 */
export class NftablesDataplane implements Dataplane<NftScript> {
  readonly #nft: Nft;
  readonly #options: NftablesOptions;
  #references = new Map<ObjectId, number>();
  #elements = new Map<string, number>();
  /** By chain that services share, how many rules it has; by set or map, 0. */
  #rules = new Map<string, number>();
  readonly #deferred = new DeferredDeletes();
  #hasWritten = false;
  #applied: symbol | undefined;
  #isReplacing = false;
  #progress: Progress | undefined;
  #beside: Beside | undefined;

  /**
   * @param nft the program
   * @param options what else it works with
   */
  constructor(nft: Nft, options: NftablesOptions = {}) {
    this.#nft = nft;
    this.#options = options;
  }

  /** The number of elements in each set and map, after the last applied script. */
  get elements(): ReadonlyMap<string, number> {
    return this.#elements;
  }

  /** Returns true if the table is written and read in portions. It is never listed whole. */
  get isLarge(): boolean {
    const { portions } = this.#options;
    let sum = 0;
    for (const count of this.#elements.values()) sum += count;
    return portions !== undefined && sum > this.#weight;
  }

  /** Elements of one portion, more or less. */
  get #weight(): number {
    return this.#options.portions?.weight ?? PORTION_WEIGHT;
  }

  /** True if the table may differ from the state: after a failure, or while deletions wait. */
  get mayDiffer(): boolean {
    return this.#isReplacing || this.isUnfinished;
  }

  /** True if the next partial script has deletions to make, even of no change. */
  get isUnfinished(): boolean {
    return !this.#deferred.isEmpty;
  }

  /** Returns true if this process wrote the table, and did not read it back. */
  get hasWritten(): boolean {
    return this.#hasWritten;
  }

  /** Names the state that the kernel holds; `undefined` while a script is made or applied, and after it failed. */
  get applied(): symbol | undefined {
    return this.#applied;
  }

  /**
   * All chains, sets and maps that the table has after the last applied script, with the number of
   * their rules (0 for sets and maps).
   */
  *ruleCounts(node: DesiredNode): Iterable<readonly [name: string, rules: number]> {
    for (const { name, rules } of fixedChains(node)) yield [name, rules.length];
    yield* this.#rules;
  }

  /** @inheritdoc */
  get progress(): Progress | undefined {
    return this.#progress;
  }

  /** @inheritdoc */
  full(state: DesiredState | StreamedState): FullScript {
    return new FullScript(state, { portionWeight: this.#options.portions?.weight });
  }

  /** @inheritdoc */
  *changing(
    change: StateChange,
    state: DesiredState,
  ): Generator<undefined, PartialScript | undefined> {
    // The state is ahead of the kernel from here on.
    this.#applied = undefined;
    if (changesFixedRules(change) || isLargeChange(change)) return undefined;
    const { operations, references } = yield* diffingServices(change.services.values(), {
      node: state.node,
      references: this.#references,
    });
    const { share = Infinity } = this.#options;
    const all = this.#deferred.limit(withNodeElements(operations, change), share);
    const counts = { references, elements: countElements(all), rules: countRules(all) };
    yield;
    return yield* toPartialScript(all, { ...counts, weight: this.#weight });
  }

  /** A script that brings back what was applied last, and so changes none of what is known of that. */
  repair(operations: Operations): PartialScript {
    return atOnce(toPartialScript(operations, { ...NO_COUNTS, weight: this.#weight }));
  }

  /**
   * Reads the kernel while scripts come. `nft` begins again whenever a transaction comes between, and would not
   * come to an end under many: the first one goes ahead, those that follow wait for the reading.
   *
   * @param longest how long they wait at most
   */
  async beside<T>(read: () => Promise<T>, longest: () => Promise<void>): Promise<T> {
    const reading = read();
    const beside: Beside = {
      isDisturbed: false,
      done: () => Promise.race([reading.then(() => {}, () => {}), longest()]),
    };
    this.#beside = beside;
    try {
      return await reading;
    } finally {
      if (this.#beside === beside) this.#beside = undefined;
    }
  }

  /** @inheritdoc */
  async apply(script: NftScript, checkpoint = () => {}): Promise<void> {
    if (script.kind === "partial" && script.text === "") return this.#settled();
    if (this.#beside?.isDisturbed) await this.#beside.done();
    else if (this.#beside) this.#beside.isDisturbed = true;
    this.#applied = undefined;
    this.#isReplacing ||= script.kind === "full";
    try {
      await (script.kind === "full" ? this.#replace(script, checkpoint) : this.#step(script));
    } catch (error) {
      this.#isReplacing = true;
      throw error;
    }
    this.#isReplacing = false;
    this.#settled();
  }

  #settled(): void {
    this.#applied = Symbol("applied");
  }

  async #replace(script: FullScript, checkpoint: () => void): Promise<void> {
    const { portions } = this.#options;
    // What led to it was long, too.
    if (script.isLong) await portions?.clock.sleep(0);
    const turns = new Turns(portions?.clock ?? NO_TURNS);
    const isDone = portions !== undefined &&
      (await turns.run(script.exceedingPortion()) || this.isLarge) &&
      await this.#replaceLarge(script, { ...portions, checkpoint });
    if (!isDone) {
      const hasAffinity = await turns.run(script.reading());
      checkpoint();
      const prologue = await this.#prologue();
      const mark = this.#mark();
      const clients = hasAffinity ? await this.#nft.listSets() : "";
      await this.#nft.stream(() => withClients(script, { prologue, clients, mark }));
      this.#hasWritten = true;
    }
    this.#deferred.clear();
    const { references, elements, rules } = script.contents;
    this.#references = references;
    this.#elements = elements;
    this.#rules = rules;
  }

  async #replaceLarge(script: FullScript, portions: InParts): Promise<boolean> {
    return (await this.#nft.listHookedTables()).includes(TABLE)
      ? await this.#reconcile(script, portions)
      : await this.#writePortions(script, portions);
  }

  /** Reads a table back that packets meet. @returns whether it is in the state: else it has to be replaced */
  async #reconcile(
    script: FullScript,
    { clock, logger, checkpoint }: InParts,
  ): Promise<boolean> {
    const [mark, weight] = [() => this.#mark(), this.#weight];
    const found = await reconcile(script, { nft: this.#nft, clock, weight, mark, checkpoint });
    if (!found) return false;
    // Not before: until our table is in the state, another proxy's may know more of it.
    const prologue = await this.#prologue();
    if (prologue !== "") await this.#nft.apply(prologue);
    script.reached(found.objects, found.written);
    const { operations } = found.written;
    if (operations > 0) logger.info("read the table back, and wrote what differed", { operations });
    return true;
  }

  async #writePortions(script: FullScript, portions: InParts): Promise<boolean> {
    try {
      await writePortions(script, {
        ...portions,
        nft: this.#nft,
        prologue: () => this.#prologue(),
        mark: () => this.#mark(),
        onProgress: (progress) => this.#progress = progress,
      });
      this.#hasWritten = true;
      return true;
    } finally {
      this.#progress = undefined;
    }
  }

  async #prologue(): Promise<string> {
    return await this.#options.prologue?.() ?? "";
  }

  #mark(): string {
    return this.#options.marks?.next() ?? "";
  }

  async #step(script: PartialScript): Promise<void> {
    const { transactions, references, elements, rules } = script;
    // What is known is that of before where one of them fails: everything is replaced then.
    for (const text of transactions) await this.#nft.apply(text + this.#mark());
    for (const [id, count] of references) setCount(this.#references, id, count);
    for (const [name, count] of rules) {
      if (count === undefined) this.#rules.delete(name);
      else this.#rules.set(name, count);
    }
    for (const [set, more] of elements) {
      setCount(this.#elements, set, (this.#elements.get(set) ?? 0) + more);
    }
  }
}

/** Replacing the table must not forget who is on which endpoint; the mark goes last. */
function* withClients(
  script: FullScript,
  options: { readonly prologue: string; readonly clients: string; readonly mark: string },
): Generator<string, void> {
  const { affinitySets } = yield* script.pieces(options.prologue);
  if (affinitySets.length > 0) yield renderStickyClients(options.clients, affinitySets);
  if (options.mark !== "") yield options.mark;
}

function withNodeElements(operations: Operations, { node }: StateChange): Operations {
  if (!node) return operations;
  const { deleteElements, addElements } = nodeElementChanges(node.before, node.after);
  return {
    ...operations,
    deleteElements: [...operations.deleteElements, ...deleteElements],
    addElements: [...operations.addElements, ...addElements],
  };
}
