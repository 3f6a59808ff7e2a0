/** Schedules writes of the state file: rarely, one at a time, and without delaying syncs. */
import { messageOf } from "../../model/values/errors.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";

export interface WriteTerms {
  /** Milliseconds since the epoch, for the file's header. */
  readonly written: number;
  /** Awaited after every few milliseconds of work, so that syncs can run. */
  readonly pause: () => Promise<void>;
  /** Aborts when the time is over. */
  readonly signal: AbortSignal;
}

export interface StateKeeperOptions {
  /** Writes the complete current state. If it rejects, the old file stays. */
  readonly write: (terms: WriteTerms) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Milliseconds from the end of one write to the next, at least. It saves flash memory. */
const PERIOD = 60_000;

/** The rest after a write, as a multiple of its duration: at most half a percent of a processor. */
const REST = 50;

const LONGEST_REST = 600_000;

/** Milliseconds from a first change to its write, so that one write has a whole burst. */
const DELAY = 5_000;

/** Milliseconds that a stop waits for a last write. The unit allows 15 s. */
const STOP_LIMIT = 5_000;

const PAUSE = 1;

/** Keeps the state file up to date. Nothing runs while there is nothing to write. */
export class StateKeeper {
  readonly #stopping = new AbortController();
  readonly #outOfTime = new AbortController();
  /** The monotonic time of the first unwritten change; `undefined` if there is none. */
  #waitingSince: number | undefined;
  /** The monotonic time of the last write. */
  #written: number | undefined;
  /** The monotonic time before which no write begins. */
  #restsUntil = -Infinity;
  #failure: string | undefined;
  #running: Promise<void> | undefined;

  /** When the file was written that was there at the start, milliseconds since the epoch; 0: there is none. */
  foundTime = 0;

  constructor(private readonly options: StateKeeperOptions) {}

  /** Takes the time of the existing file, milliseconds since the epoch; `undefined`: it is not usable. */
  found(written: number | undefined): void {
    if (written === undefined) return;
    const { clock } = this.options;
    this.foundTime = written;
    // The clock may have been set back since then.
    this.#written = clock.monotonic() - Math.max(0, clock.now() - written);
  }

  /** Notes that the kernel holds a newer state than the file, once every source has delivered. */
  changed(): void {
    this.#waitingSince ??= this.options.clock.monotonic();
    if (!this.#stopping.signal.aborted) this.#running ??= this.#run();
  }

  /** Returns the seconds since the last write, or `undefined` if there is no usable file. */
  age(): number | undefined {
    if (this.#written === undefined) return undefined;
    return (this.options.clock.monotonic() - this.#written) / 1000;
  }

  /** Writes pending changes, then no more. A write beyond the limit is given up, and the old file stays. */
  async stop(): Promise<void> {
    const { clock } = this.options;
    this.#stopping.abort();
    const done = new AbortController();
    const limit = clock.sleep(STOP_LIMIT, done.signal).then(() => this.#outOfTime.abort());
    await Promise.race([this.#finish(), limit]);
    done.abort();
  }

  async #finish(): Promise<void> {
    await this.#running;
    if (this.#waitingSince !== undefined && !this.#outOfTime.signal.aborted) await this.#write();
  }

  async #run(): Promise<void> {
    const { clock } = this.options;
    const { signal } = this.#stopping;
    while (this.#waitingSince !== undefined && !signal.aborted) {
      const due = Math.max(this.#waitingSince + DELAY, this.#restsUntil);
      await clock.sleep(Math.max(0, due - clock.monotonic()), signal);
      if (!signal.aborted) await this.#write();
    }
    this.#running = undefined;
  }

  async #write(): Promise<void> {
    const { write, clock } = this.options;
    const waitingSince = this.#waitingSince;
    const started = clock.monotonic();
    this.#waitingSince = undefined;
    try {
      // At a stop there are no syncs to wait for.
      const pause = () => clock.sleep(PAUSE, this.#stopping.signal);
      await write({ written: clock.now(), pause, signal: this.#outOfTime.signal });
      this.#written = started;
      this.#report(undefined);
    } catch (error) {
      this.#waitingSince = waitingSince;
      this.#report(messageOf(error));
    }
    const ended = clock.monotonic();
    const rest = Math.min(REST * (ended - started), LONGEST_REST);
    this.#restsUntil = ended + Math.max(PERIOD, rest);
  }

  /** Logs a new failure once, and its end. */
  #report(failure: string | undefined): void {
    const { logger } = this.options;
    if (failure === this.#failure) return;
    this.#failure = failure;
    if (failure === undefined) logger.info("the state file is written again");
    else logger.warn(`the state file is not written: ${failure}`);
  }
}
