/**
 * Notices when another program changes our table: at once by `nft monitor`, and by a look at the
 * table now and then.
 *
 * Each of our own transactions carries a mark; what changes our table without one was another
 * program. After a time without a monitor, the kernel is compared with what it should hold, and
 * only a difference is drift. A large table is not listed for that: a full sync reads it back in parts.
 *
 * @module
 */
import { Backoff, type BackoffLimits, delayAfter } from "../../../model/values/timing.ts";
import type { Drift } from "../../../model/kernel/differences.ts";
import type { Clock, Logger, ProcessStreamer } from "../../../model/ports/ports.ts";
import type { Nft } from "../kernel/nft.ts";
import { followMonitor } from "./follow.ts";
import type { Look } from "./look.ts";
import type { Marks } from "./marks.ts";
import type { Touched } from "./touched.ts";
import { inWords, type Transaction } from "./transactions.ts";

/** What the watch works with. */
export interface DriftWatchOptions {
  readonly streamer: ProcessStreamer;
  readonly nft: Pick<Nft, "listSetNames">;
  readonly marks: Pick<Marks, "isOwn">;
  readonly look: Pick<Look, "structure" | "contents">;
  /** Is told which elements other programs have touched. */
  readonly touched: Pick<Touched, "add" | "all" | "clear">;
  /** Returns true if the table is too large to be listed. */
  readonly isLarge: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two looks at the structure of the table. */
  readonly checkPeriod: number;
  readonly onDrift: (drift: Drift) => void;
  /** Called, with the reason, where only a full sync can compare what may have changed. */
  readonly onMissed: (reason: string) => void;
}

/** What another program does may take several transactions: so long they are gathered, in milliseconds. */
const GATHER = 50;
/** Milliseconds for a monitor to tell of what a look has found, and who did it. */
const TELLING = 2 * GATHER;
/** Looks in a row, where monitors report while the table is read. */
const MOST_LOOKS = 3;
/** Milliseconds after which a new `nft monitor` hears what happens. */
const SUBSCRIBED = 300;
/**
 * Milliseconds between two full syncs for what was missed: changes wait while one runs, and one that has
 * to replace everything may itself be too much for the monitor.
 */
const FULL_PAUSES: BackoffLimits = { first: 60_000, longest: 3_600_000 };
/** Milliseconds in which a transaction of ours may show that nothing was missed, and between two looks for one. */
const PROOF = { longest: 10_000, step: 500 };
/** Milliseconds until a monitor that ended is started again. */
const PAUSES: BackoffLimits = { first: 200, longest: 30_000 };
/** A monitor that lasted so many times the next pause is started again soon. */
const LONG = 10;

/** Follows the kernel until the signal aborts. */
export class DriftWatch {
  readonly #options: DriftWatchOptions;
  #foreign: Transaction[] = [];
  readonly #generations = new Generations();
  /** How often a monitor's word was reported. */
  #told = 0;
  #looking: Promise<unknown> = Promise.resolve();
  /** The last look failed. */
  #isUnreadable = false;
  readonly #fullPauses = new Backoff(FULL_PAUSES);
  /** When a full sync may be asked for again, milliseconds; `undefined` while one waits for that time. */
  #nextFull: number | undefined = -Infinity;

  /** @param options what to follow and whom to tell */
  constructor(options: DriftWatchOptions) {
    this.#options = options;
  }

  /** Runs both ways of noticing. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#follow(signal), this.#check(signal)]);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { clock, logger, look } = this.#options;
    const backoff = new Backoff(PAUSES);
    const whenSubscribed = async (look: () => Promise<unknown>) => {
      await clock.sleep(SUBSCRIBED, signal);
      if (!signal.aborted) await look();
    };
    void whenSubscribed(() => this.#look(() => look.structure()));
    while (!signal.aborted) {
      const started = clock.monotonic();
      await followMonitor({
        ...this.#options,
        onTransaction: (transaction) => this.#take(transaction),
      }, signal);
      if (signal.aborted) return;
      this.#generations.interrupted();
      logger.info(
        "nft monitor has ended (1.0.6 does where source ranges change), or lost events; it is started again, and the table compared",
      );
      const lasted = clock.monotonic() - started;
      const pause = delayAfter(PAUSES, backoff.failures);
      if (lasted > Math.min(PAUSES.longest, LONG * pause)) backoff.reset();
      await clock.sleep(backoff.next(), signal);
      void whenSubscribed(() => this.#compare(signal));
    }
  }

  #take(transaction: Transaction): void {
    const mark = transaction.marks.find((mark) => this.#options.marks.isOwn(mark));
    if (!this.#generations.tell(transaction.generation, mark)) return;
    if (mark !== undefined) {
      if (!transaction.isWholeTable) return;
      // What others did before is undone.
      this.#foreign = [];
      this.#options.touched.clear();
    } else if (transaction.missing !== "" || transaction.added !== "") {
      this.#report(transaction);
    }
  }

  /** Looks for what may have been missed. A large table's elements are for a full sync. */
  async #compare(signal: AbortSignal): Promise<void> {
    const { look, isLarge, onMissed, clock } = this.#options;
    const isFine = await this.#look(() => look.contents());
    if (!isFine || !isLarge() || await this.#hasMissedNothing(signal)) return;
    if (this.#nextFull === undefined) return;
    const late = clock.monotonic() - this.#nextFull;
    if (late > FULL_PAUSES.longest) this.#fullPauses.reset();
    this.#nextFull = undefined;
    await clock.sleep(Math.max(0, -late), signal);
    this.#nextFull = clock.monotonic() + this.#fullPauses.next();
    if (!signal.aborted) onMissed("nft monitor missed events");
  }

  /**
   * The kernel counts all transactions, and we count ours: the next one of ours shows whether others came
   * between. Most monitors end by what we do: 1.0.6 crashes, or there is too much to tell.
   */
  async #hasMissedNothing(signal: AbortSignal): Promise<boolean> {
    const { clock, logger } = this.#options;
    const generations = this.#generations;
    for (let waited = 0; !generations.isComplete && waited < PROOF.longest; waited += PROOF.step) {
      await clock.sleep(PROOF.step, signal);
    }
    const { isComplete } = generations;
    if (isComplete) logger.debug(2, "nft monitor missed no change of another program");
    else generations.reset();
    return isComplete;
  }

  /** The first report starts the gathering, those that follow at once join. */
  #report(transaction: Transaction): void {
    this.#foreign.push(transaction);
    if (this.#foreign.length > 1) return;
    void this.#options.clock.sleep(GATHER).then(() => {
      const all = this.#foreign;
      this.#foreign = [];
      if (all.length === 0) return;
      all.sort((a, b) => a.generation - b.generation | 0);
      for (const each of all) this.#options.touched.add(each);
      this.#told++;
      const some = (what: keyof Drift) =>
        inWords(all.map((each) => each[what]).filter((text) => text !== ""));
      this.#options.onDrift({ missing: some("missing"), added: some("added"), by: some("by") });
    });
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { clock, checkPeriod, look } = this.#options;
    while (!signal.aborted) {
      await clock.sleep(checkPeriod, signal);
      if (!signal.aborted) await this.#look(() => look.structure());
    }
  }

  /** One look at a time. What cannot be read now is read at the next one. @returns whether nothing was found */
  #look(look: () => Promise<Drift | undefined>): Promise<boolean> {
    const { logger } = this.#options;
    const looked = this.#looking.then(() => this.#lookNow(look)).catch((error) => {
      const message = "the table cannot be looked at; it is tried again";
      if (this.#isUnreadable) logger.debug(2, message, { error: String(error) });
      else logger.warn(message, { error: String(error) });
      this.#isUnreadable = true;
      return false;
    });
    this.#looking = looked;
    return looked;
  }

  /**
   * Where a monitor reports meanwhile, that asks for the same repair: whether it was enough is looked at.
   *
   * @returns whether nothing was found
   */
  async #lookNow(look: () => Promise<Drift | undefined>): Promise<boolean> {
    const { onDrift, logger, clock, touched } = this.#options;
    for (let left = MOST_LOOKS; left > 0; left--) {
      const told = this.#told;
      const drift = await look();
      this.#isUnreadable = false;
      if (!drift) {
        logger.debug(2, "the table is as it should be");
        return true;
      }
      touched.all();
      await clock.sleep(TELLING);
      if (this.#told === told || left === 1) {
        onDrift(drift);
        break;
      }
    }
    return false;
  }
}

/** Generations that two monitors may both tell of, at most: one takes over from the other. */
const REMEMBERED = 1_000;

/**
 * Shows if `nft monitor` missed transactions of other programs.
 *
 * The kernel numbers all transactions (generations), and we number ours (`marks.ts`). Without a missed one, the
 * difference between both numbers grows only by the reported transactions of other programs.
 */
export class Generations {
  /** The latest ones. */
  readonly #told = new Set<number>();
  /** The number of reported transactions that other programs made. */
  #others = 0;
  /** The number of unreported foreign transactions; `undefined` until our next one shows it. */
  #untold: number | "unknown" | undefined;
  #isComplete = false;

  /**
   * Counts a transaction, once: two monitors may tell of it.
   *
   * @param mark our number of it; `undefined`: another program made it
   * @returns whether it was not told before
   */
  tell(generation: number, mark: number | undefined): boolean {
    if (this.#told.has(generation)) return false;
    this.#told.add(generation);
    const [oldest] = this.#told;
    if (oldest !== undefined && this.#told.size > REMEMBERED) this.#told.delete(oldest);
    if (mark === undefined) this.#others++;
    else {
      const untold = generation - mark - this.#others | 0;
      this.#untold ??= untold;
      this.#isComplete = untold === this.#untold;
    }
    return true;
  }

  /** A monitor has ended: the next transaction of ours shows what it missed, if one was told before. */
  interrupted(): void {
    this.#isComplete = false;
    this.#untold ??= "unknown";
  }

  /** Since the interruption, a transaction of ours has shown that no other program's was missed. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Begins again: a full sync sees to what may have been missed. */
  reset(): void {
    this.#untold = undefined;
  }
}
