/**
 * Detects that another program changed our table: at once with `nft monitor`, and by comparing the table.
 *
 * Each of our own transactions has a mark. A change of our table without a mark is another program's. After a time
 * without a monitor, the table is compared. For a large table, a full sync does that: it reads the table in parts.
 */
import { shortList } from "../../model/values/text.ts";
import { Backoff, type BackoffLimits, delayAfter, Limiter } from "../../model/values/timing.ts";
import { BoundedMap } from "../../model/values/bounded.ts";
import type { Drift } from "../../model/kernel/dataplane.ts";
import type { Clock, Logger, ProcessStreamer } from "../../model/ports/ports.ts";
import type { ListedSet, Marks, Nft } from "./nft.ts";
import type { Look } from "./repair.ts";
import { type Touched, type Transaction, TransactionReader } from "./transactions.ts";
import { TABLE } from "./table.ts";
import { setNamed } from "./sets.ts";

interface DriftWatchOptions extends Omit<FollowOptions, "onTransaction"> {
  readonly marks: Pick<Marks, "isOwn" | "last">;
  readonly look: Pick<Look, "structure" | "contents">;
  readonly touched: Pick<Touched, "add">;
  readonly isLarge: () => boolean;
  /** Milliseconds between two comparisons of the table's structure. */
  readonly checkPeriod: number;
  readonly onDrift: (drift: Drift) => void;
  /** Called with the reason if only a full sync can find what changed. */
  readonly onMissed: (reason: string) => void;
}

/** Milliseconds in which another program's transactions are collected. */
const GATHER = 50;
/** Milliseconds in which a monitor can report what a comparison has found, with the program's name. */
const REPORT_WAIT = 2 * GATHER;
/** Milliseconds after which a new `nft monitor` receives events. */
const SUBSCRIBED = 300;
/** Milliseconds between full syncs for missed transactions. Other changes wait for a full sync. */
const FULL_PAUSES: BackoffLimits = { first: 60_000, longest: 3_600_000 };
/** Milliseconds in which a monitor must report our transaction, and in which a new monitor must begin to report. */
const REPORTING = 10_000;
/** The limit of reported generations that are remembered. */
const REMEMBERED = 1_000;
/** Milliseconds until a monitor that ended is started again. */
const RESTARTS: BackoffLimits = { first: 200, longest: 30_000 };
/** After a monitor ran for this many times the next pause, the pauses begin again with the first. */
const LONG = 10;

export class DriftWatch {
  #foreign: Transaction[] = [];
  /** The generations of the last reports: while one monitor replaces another, both report some transactions. */
  readonly #generations = new BoundedMap<number, true>(REMEMBERED);
  /** The number of reports by monitors. */
  #reports = 0;
  /** The last mark of ours that a monitor reported. */
  #lastReported = -1;
  #looking = Promise.resolve();
  #isUnreadable = false;
  readonly #fullSyncs = new Limiter({ atOnce: 1, pauses: FULL_PAUSES });
  #isWaiting = false;

  constructor(private readonly options: DriftWatchOptions) {}

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#follow(signal), this.#check(signal)]);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { clock, logger, look } = this.options;
    const backoff = new Backoff(RESTARTS);
    const whenSubscribed = async (look: () => Promise<unknown>) => {
      await clock.sleep(SUBSCRIBED, signal);
      if (!signal.aborted) await look();
    };
    void whenSubscribed(() => this.#look(() => look.structure()));
    while (!signal.aborted) {
      const started = clock.monotonic();
      const over = new AbortController();
      const either = AbortSignal.any([signal, over.signal]);
      const silence = this.#awaitMissingReport(either).then(() => over.abort());
      await followMonitor({
        ...this.options,
        onTransaction: (transaction) => this.#take(transaction),
      }, either);
      over.abort();
      await silence;
      if (signal.aborted) return;
      logger.info(
        "nft monitor ended (1.0.6 does if source ranges change), or lost events; starting it again and comparing the table",
      );
      const lasted = clock.monotonic() - started;
      const pause = delayAfter(RESTARTS, backoff.failures);
      if (lasted > Math.min(RESTARTS.longest, LONG * pause)) backoff.reset();
      await clock.sleep(backoff.next(), signal);
      void whenSubscribed(() => this.#compare(signal));
    }
  }

  /** Waits until a monitor does not report our transaction: it hangs, or nft did not write. */
  async #awaitMissingReport(signal: AbortSignal): Promise<void> {
    const { clock, logger, marks } = this.options;
    await clock.sleep(REPORTING, signal);
    let reported = this.#lastReported = marks.last;
    while (!signal.aborted) {
      const due = marks.last;
      await clock.sleep(REPORTING, signal);
      // A monitor that lags behind reports earlier transactions.
      if (!signal.aborted && this.#lastReported < due && this.#lastReported === reported) {
        return logger.warn(
          "nft monitor does not report what signpost wrote: it hangs, or nft did not write; starting it again and comparing the table",
          { seconds: REPORTING / 1_000 },
        );
      }
      reported = this.#lastReported;
    }
  }

  #take(transaction: Transaction): void {
    const mark = transaction.marks.find((mark) => this.options.marks.isOwn(mark));
    this.#lastReported = Math.max(this.#lastReported, mark ?? -1);
    if (this.#isKnown(transaction)) return;
    if (mark !== undefined) {
      // The new table replaced what other programs wrote.
      if (transaction.isWholeTable) this.#foreign = [];
    } else if (transaction.missing !== "" || transaction.added !== "") {
      this.#report(transaction);
    }
  }

  #isKnown({ generation }: Transaction): boolean {
    const isKnown = this.#generations.get(generation) === true;
    this.#generations.set(generation, true);
    return isKnown;
  }

  /** Compares the table, or asks for a full sync if it is large. */
  async #compare(signal: AbortSignal): Promise<void> {
    const { look, isLarge, onMissed, clock } = this.options;
    if (!isLarge()) return await this.#look(() => look.contents());
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    const now = clock.monotonic();
    await clock.sleep(this.#fullSyncs.next(now).at - now, signal);
    this.#isWaiting = false;
    if (!signal.aborted) onMissed("nft monitor ended or lost events");
  }

  /** Collects reports for `GATHER` milliseconds after the first report, then calls `onDrift` once. */
  #report(transaction: Transaction): void {
    this.#foreign.push(transaction);
    if (this.#foreign.length > 1) return;
    void this.options.clock.sleep(GATHER).then(() => {
      const all = this.#foreign;
      this.#foreign = [];
      if (all.length === 0) return;
      all.sort((a, b) => a.generation - b.generation | 0);
      for (const each of all) this.options.touched.add(each);
      this.#reports++;
      const some = (what: "missing" | "added" | "by") =>
        shortList(all.map((each) => each[what]).filter((text) => text !== ""));
      this.options.onDrift({ missing: some("missing"), added: some("added"), by: some("by") });
    });
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { clock, checkPeriod, look } = this.options;
    while (!signal.aborted) {
      await clock.sleep(checkPeriod, signal);
      if (!signal.aborted) await this.#look(() => look.structure());
    }
  }

  /** Runs a comparison after the previous comparison. */
  #look(look: () => Promise<Drift | undefined>): Promise<void> {
    const { logger } = this.options;
    const looked = this.#looking.then(() => this.#lookNow(look)).catch((error) => {
      const message = "cannot read the table; trying again";
      if (this.#isUnreadable) logger.debug(2, message, { error: String(error) });
      else logger.warn(message, { error: String(error) });
      this.#isUnreadable = true;
    });
    this.#looking = looked;
    return looked;
  }

  async #lookNow(look: () => Promise<Drift | undefined>): Promise<void> {
    const { onDrift, logger, clock } = this.options;
    const drift = await look();
    this.#isUnreadable = false;
    if (!drift) return logger.debug(2, "the table has the desired rules");
    const reports = this.#reports;
    await clock.sleep(REPORT_WAIT);
    // The monitor's report has asked for the same repair.
    if (this.#reports === reports) onDrift(drift);
  }
}

interface FollowOptions {
  readonly streamer: ProcessStreamer;
  readonly nft: Pick<Nft, "listSetNames">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onTransaction: (transaction: Transaction) => void;
}

/** Milliseconds until the next try, after a successor ended without a report. */
const SUCCESSIONS: BackoffLimits = { first: 50, longest: 5_000 };

/**
 * Follows the kernel until the last monitor ends. A monitor that lost events ends: the kernel drops events until 16 MB
 * are read. A monitor that does not know new sets runs until it has reported its successor's first generation.
 * @param onFirstGeneration receives the first reported generation
 */
export async function followMonitor(
  options: FollowOptions,
  signal: AbortSignal,
  onFirstGeneration: (generation: number) => void = () => {},
): Promise<void> {
  const { streamer, nft, clock, logger, onTransaction } = options;
  const reader = new TransactionReader();
  const successorStarted = new AbortController();
  const noMonitorLeft = new AbortController();
  let lastGeneration: number | undefined;
  let successorGeneration: number | undefined;
  let succession: Promise<void> | undefined;
  const endIfReplaced = () => {
    if (lastGeneration === undefined || successorGeneration === undefined) return;
    // Generations are counted in 32 bits.
    if ((lastGeneration - successorGeneration | 0) >= 0) successorStarted.abort();
  };
  const succeed = async () => {
    const either = AbortSignal.any([signal, noMonitorLeft.signal]);
    const backoff = new Backoff(SUCCESSIONS);
    while (!either.aborted) {
      await followMonitor(options, either, (generation) => {
        successorGeneration = generation;
        endIfReplaced();
      });
      if (successorGeneration !== undefined) return;
      await clock.sleep(backoff.next(), either);
    }
  };
  try {
    const known = await nft.listSetNames();
    const either = AbortSignal.any([signal, successorStarted.signal]);
    for await (const line of streamer.lines(monitorCommand(known), either)) {
      const transaction = reader.read(line);
      if (transaction === undefined) continue;
      onTransaction(transaction);
      let added = transaction.newSets;
      if (lastGeneration === undefined) {
        onFirstGeneration(transaction.generation);
        // Sets that were added between the list and the first transaction were not reported.
        const now = await nft.listSetNames().catch(() => known);
        added = [...added, ...now.map(({ name }) => name)];
      }
      lastGeneration = transaction.generation;
      if (outgrown(known, added)) succession ??= succeed();
      endIfReplaced();
    }
  } catch (error) {
    logger.debug(2, "nft monitor failed", { error: String(error) });
  }
  // A monitor that ended alone may have missed events, and its successor may not receive events yet.
  if (!successorStarted.signal.aborted) noMonitorLeft.abort();
  await succession;
}

/** The limit of sets in the command: session affinity adds thousands of sets, with few elements each. */
const MAX_SETS = 1_000;

/**
 * Returns the command of an `nft monitor` that needs 4 MB. By default it keeps all elements, 1.6 kB each (1.0.6,
 * 1.1.3). With `--echo` it does not keep added elements. After `flush set` it does not read that set; `--check` sends
 * nothing. With `list table` it does not read other tables.
 */
export function monitorCommand(sets: readonly ListedSet[]): readonly [string, ...string[]] {
  const flushes = sets.slice(0, MAX_SETS).flatMap(({ kind, name }) =>
    `flush ${kind} ${TABLE} ${name} ;`.split(" ")
  );
  const list = `list table ${TABLE}`.split(" ");
  return ["nft", "--check", "--echo", ...flushes, "monitor", ";", ...list];
}

/** Returns true if a monitor does not know a new set, whose elements it never prints. Client sets do not count. */
function outgrown(known: readonly ListedSet[], added: readonly string[]): boolean {
  return added.some((name) =>
    setNamed(name)?.role !== "affinityClients" && !known.some((each) => each.name === name)
  );
}
