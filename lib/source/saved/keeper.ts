/**
 * When the state file is written: rarely, one write at a time, and never in the way of a sync.
 *
 * @module
 */
import { messageOf } from "../../model/values/errors.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";

/** How one write goes about it. */
export interface WriteTerms {
  /** Milliseconds since the epoch, for the header of the file. */
  readonly written: number;
  /** To be awaited after every few milliseconds of work, so that syncs have their turn. */
  readonly pause: () => Promise<void>;
  /** Aborts when there is no time left. */
  readonly signal: AbortSignal;
}

/** Writes the complete state as it is now; rejects where it cannot, and the old state is kept. */
export type WriteState = (terms: WriteTerms) => Promise<void>;

/** What the keeper works with. */
export interface StateKeeperOptions {
  readonly write: WriteState;
  readonly clock: Clock;
  readonly logger: Logger;
  /** When the state file that was found at the start was written, milliseconds since the epoch. */
  readonly lastWritten?: number | undefined;
  /**
   * Milliseconds from the end of one write to the start of the next, at least; a minute by default.
   *
   * What a later start loses by them is little: after a crash the kernel still has the rules, and
   * after a loss of power the watches correct what changed in the last minute. What they save is
   * flash and time: a cluster that never rests makes 1,440 writes a day, 0.01 GB for 1,000 endpoints
   * and 1.3 GB for 100,000, the latter for half a percent of a processor. Where a write takes longer, so
   * does the rest: for 1,000,000 endpoints it takes 2 s of a processor, and seven minutes go by.
   */
  readonly period?: number;
}

const PERIOD = 60_000;

/** How many times as long as a write the rest after it is: no more than half a percent of a processor. */
const REST = 50;

/** Milliseconds of that rest at most. */
const LONGEST_REST = 600_000;

/**
 * Milliseconds from a first change to its write. Changes come in bursts, at a start above all: one write has
 * them all. And a daemon that keeps crashing at its start does not write each time.
 */
const DELAY = 5_000;

/**
 * Milliseconds that a stop waits for a last write: the unit gives it 15 s. For 1,000,000 endpoints it takes
 * 2 s, and a start that finds an older state takes 40 s where one that finds the last takes 20.
 */
const STOP_LIMIT = 5_000;

/** Milliseconds of rest between two batches of a write. */
const PAUSE = 1;

/** Keeps the state file up to date. Nothing runs while nothing waits to be written. */
export class StateKeeper {
  readonly #options: StateKeeperOptions;
  readonly #stopping = new AbortController();
  readonly #outOfTime = new AbortController();
  /** Monotonic time of the first change that is not in the file; `undefined`: none. */
  #waitingSince: number | undefined;
  /** Monotonic time at which the file was written. */
  #written: number | undefined;
  /** Monotonic time before which no write begins. */
  #restsUntil = -Infinity;
  #failure: string | undefined;
  #running: Promise<void> | undefined;

  /** @param options everything that the keeper works with */
  constructor(options: StateKeeperOptions) {
    this.#options = options;
    const { clock, lastWritten } = options;
    if (lastWritten !== undefined) {
      // The clock may have been set back since.
      this.#written = clock.monotonic() - Math.max(0, clock.now() - lastWritten);
    }
  }

  /**
   * Says that the kernel holds a newer state than the file.
   *
   * To be called after a sync, and not before every source has delivered: a state that itself came
   * from the file must not be written as if it were new.
   */
  changed(): void {
    this.#waitingSince ??= this.#options.clock.monotonic();
    if (!this.#stopping.signal.aborted) this.#running ??= this.#run();
  }

  /** Seconds since the file was written; `undefined` where there is none that can be used. */
  age(): number | undefined {
    if (this.#written === undefined) return undefined;
    return (this.#options.clock.monotonic() - this.#written) / 1000;
  }

  /**
   * Writes what waits, and nothing after that.
   *
   * Resolves within the limit; a write that is not done by then is given up, and the old file stays.
   */
  async stop(): Promise<void> {
    const { clock } = this.#options;
    this.#stopping.abort();
    const done = new AbortController();
    const limit = clock.sleep(STOP_LIMIT, done.signal).then(() => this.#outOfTime.abort());
    await Promise.race([this.#finish(), limit]);
    done.abort();
  }

  /** Waits for the write that runs, then writes what came meanwhile. */
  async #finish(): Promise<void> {
    await this.#running;
    if (this.#waitingSince !== undefined && !this.#outOfTime.signal.aborted) await this.#write();
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    while (this.#waitingSince !== undefined && !signal.aborted) {
      await clock.sleep(Math.max(0, this.#due(this.#waitingSince) - clock.monotonic()), signal);
      if (!signal.aborted) await this.#write();
    }
    this.#running = undefined;
  }

  #due(waitingSince: number): number {
    return Math.max(waitingSince + DELAY, this.#restsUntil);
  }

  async #write(): Promise<void> {
    const { write, clock, period = PERIOD } = this.#options;
    const waitingSince = this.#waitingSince;
    const started = clock.monotonic();
    this.#waitingSince = undefined;
    try {
      await write({
        written: clock.now(),
        pause: () => this.#pause(),
        signal: this.#outOfTime.signal,
      });
      this.#written = started;
      this.#report(undefined);
    } catch (error) {
      this.#waitingSince = waitingSince;
      this.#report(messageOf(error));
    }
    const ended = clock.monotonic();
    const rest = Math.min(REST * (ended - started), LONGEST_REST);
    this.#restsUntil = ended + Math.max(period, rest);
  }

  /** At a stop there are no syncs that need a turn. */
  #pause(): Promise<void> {
    return this.#options.clock.sleep(PAUSE, this.#stopping.signal);
  }

  /** One line for a failure until it changes, and one when it is over. */
  #report(failure: string | undefined): void {
    const { logger } = this.#options;
    if (failure === this.#failure) return;
    this.#failure = failure;
    if (failure === undefined) logger.info("the state file is written again");
    else logger.warn(`the state for a start without an API server is not kept: ${failure}`);
  }
}
