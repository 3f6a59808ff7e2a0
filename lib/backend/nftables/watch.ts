/**
 * Notices when another program changes our table: at once by `nft monitor`, and by looks at the table.
 *
 * Each of our own transactions carries a mark; a change of our table without a mark is another program's. After a time
 * without a monitor, the table is compared. A large table is not listed for that: a full sync reads it back in parts.
 */
import { Backoff, type BackoffLimits, delayAfter, Limiter } from "../../model/values/timing.ts";
import type { Drift } from "../../model/kernel/dataplane.ts";
import type { Clock, Logger, ProcessStreamer } from "../../model/ports/ports.ts";
import type { ListedSet, Marks, Nft } from "./nft.ts";
import type { Look } from "./repair.ts";
import { inWords, type Touched, type Transaction, TransactionReader } from "./transactions.ts";
import { TABLE } from "./table.ts";
import { setNamed } from "./sets.ts";

interface DriftWatchOptions extends Omit<FollowOptions, "onTransaction"> {
  readonly marks: Pick<Marks, "isOwn" | "last">;
  readonly look: Pick<Look, "structure" | "contents">;
  readonly touched: Pick<Touched, "add">;
  readonly isLarge: () => boolean;
  /** Milliseconds between two looks at the structure of the table. */
  readonly checkPeriod: number;
  readonly onDrift: (drift: Drift) => void;
  /** Called, with the reason, if only a full sync can compare what may have changed. */
  readonly onMissed: (reason: string) => void;
}

/** Milliseconds for which another program's transactions are gathered. */
const GATHER = 50;
/** Milliseconds for a monitor to tell of what a look has found, and who did it. */
const TELLING = 2 * GATHER;
/** Milliseconds after which a new `nft monitor` hears what happens. */
const SUBSCRIBED = 300;
/** Milliseconds between full syncs for missed transactions. Changes wait meanwhile. */
const FULL_PAUSES: BackoffLimits = { first: 60_000, longest: 3_600_000 };
/** Milliseconds in which a monitor must report a transaction of ours, and in which a new one begins to. */
const REPORTING = 10_000;
/** The limit of generations that two monitors may both report. */
const REMEMBERED = 1_000;
/** Milliseconds until a monitor that ended is started again. */
const RESTARTS: BackoffLimits = { first: 200, longest: 30_000 };
/** A monitor that lasted so many times the next pause is started again soon. */
const LONG = 10;

export class DriftWatch {
  #foreign: Transaction[] = [];
  /** The last reported transactions: when one monitor takes over from another, both report some. */
  readonly #generations = new Set<number>();
  /** The number of reports of a monitor. */
  #told = 0;
  /** The last mark of ours that a monitor reported. */
  #reported = -1;
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
      const silence = this.#awaitSilence(either).then(() => over.abort());
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

  /** Waits until a transaction of ours is not reported: the monitor stands still, or nft did nothing. */
  async #awaitSilence(signal: AbortSignal): Promise<void> {
    const { clock, logger, marks } = this.options;
    await clock.sleep(REPORTING, signal);
    let reported = this.#reported = marks.last;
    while (!signal.aborted) {
      const due = marks.last;
      await clock.sleep(REPORTING, signal);
      // A monitor that lags behind reports earlier ones.
      if (!signal.aborted && this.#reported < due && this.#reported === reported) {
        return logger.warn(
          "nft monitor does not report what signpost wrote: it stands still, or nft writes nothing; starting it again and comparing the table",
          { seconds: REPORTING / 1_000 },
        );
      }
      reported = this.#reported;
    }
  }

  #take(transaction: Transaction): void {
    const mark = transaction.marks.find((mark) => this.options.marks.isOwn(mark));
    this.#reported = Math.max(this.#reported, mark ?? -1);
    if (this.#isKnown(transaction)) return;
    if (mark !== undefined) {
      // That undid what others did before.
      if (transaction.isWholeTable) this.#foreign = [];
    } else if (transaction.missing !== "" || transaction.added !== "") {
      this.#report(transaction);
    }
  }

  #isKnown({ generation }: Transaction): boolean {
    if (this.#generations.has(generation)) return true;
    this.#generations.add(generation);
    const [oldest] = this.#generations;
    if (oldest !== undefined && this.#generations.size > REMEMBERED) {
      this.#generations.delete(oldest);
    }
    return false;
  }

  /** Compares the table; a full sync compares a large one. */
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

  /** Gathers reports: the first one starts the time. */
  #report(transaction: Transaction): void {
    this.#foreign.push(transaction);
    if (this.#foreign.length > 1) return;
    void this.options.clock.sleep(GATHER).then(() => {
      const all = this.#foreign;
      this.#foreign = [];
      if (all.length === 0) return;
      all.sort((a, b) => a.generation - b.generation | 0);
      for (const each of all) this.options.touched.add(each);
      this.#told++;
      const some = (what: "missing" | "added" | "by") =>
        inWords(all.map((each) => each[what]).filter((text) => text !== ""));
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

  /** Looks, one look at a time. */
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
    const told = this.#told;
    await clock.sleep(TELLING);
    // A report asks for the same repair.
    if (this.#told === told) onDrift(drift);
  }
}

interface FollowOptions {
  readonly streamer: ProcessStreamer;
  readonly nft: Pick<Nft, "listSetNames">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onTransaction: (transaction: Transaction) => void;
}

/** Milliseconds until a successor that ended before it heard anything is tried again. */
const SUCCESSIONS: BackoffLimits = { first: 50, longest: 5_000 };

/** Returns true if a generation is the other one or a later one. They are counted in 32 bits. */
function reaches(generation: number, other: number): boolean {
  return (generation - other | 0) >= 0;
}

/**
 * Follows the kernel until no monitor is left. A monitor that lost events ends: the kernel drops events until 16 MB are
 * read. A monitor that does not know new sets goes on until it has told what its successor heard first.
 * @param onHeard receives the first generation
 */
export async function followMonitor(
  options: FollowOptions,
  signal: AbortSignal,
  onHeard: (generation: number) => void = () => {},
): Promise<void> {
  const { streamer, nft, clock, logger, onTransaction } = options;
  const reader = new TransactionReader();
  const handedOver = new AbortController();
  const deserted = new AbortController();
  let told: number | undefined;
  let takenOverAt: number | undefined;
  let succession: Promise<void> | undefined;
  const handOver = () => {
    if (told === undefined || takenOverAt === undefined) return;
    if (reaches(told, takenOverAt)) handedOver.abort();
  };
  const succeed = async () => {
    const either = AbortSignal.any([signal, deserted.signal]);
    const backoff = new Backoff(SUCCESSIONS);
    while (!either.aborted) {
      await followMonitor(options, either, (generation) => {
        takenOverAt = generation;
        handOver();
      });
      if (takenOverAt !== undefined) return;
      await clock.sleep(backoff.next(), either);
    }
  };
  try {
    const known = await nft.listSetNames();
    const either = AbortSignal.any([signal, handedOver.signal]);
    for await (const line of streamer.lines(monitorCommand(known), either)) {
      const transaction = reader.read(line);
      if (transaction === undefined) continue;
      onTransaction(transaction);
      let added = transaction.newSets;
      if (told === undefined) {
        onHeard(transaction.generation);
        // Of sets that came between the list and the first transaction nothing was told.
        const now = await nft.listSetNames().catch(() => known);
        added = [...added, ...now.map(({ name }) => name)];
      }
      told = transaction.generation;
      if (outgrown(known, added)) succession ??= succeed();
      handOver();
    }
  } catch (error) {
    logger.debug(2, "nft monitor failed", { error: String(error) });
  }
  // A monitor that ended by itself may have kept something back, and its successor may not hear yet.
  if (!handedOver.signal.aborted) deserted.abort();
  await succession;
}

/** The limit of named sets: thousands come with session affinity, and hold few elements each. */
const MAX_SETS = 1_000;

/**
 * Returns the command of an `nft monitor` that needs 4 MB. By default it keeps all elements, 1.6 kB each (1.0.6, 1.1.3).
 * `--echo` keeps no added ones, `flush set` reads none of a set (`--check` sends nothing), `list table` reads no other
 * table.
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
