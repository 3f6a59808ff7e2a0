/** Schedules writes of the state file: rarely, one at a time, and without delaying syncs. */
import { messageOf } from "../../model/values/errors.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";

export interface WriteTerms {
  /** The time for the file's header, milliseconds since the epoch. */
  readonly written: number;
  /** Awaited after every few milliseconds of work, so that syncs can run. */
  readonly pause: () => Promise<void>;
  /** Aborts when the time for the write is over. */
  readonly signal: AbortSignal;
}

export interface StateKeeperOptions {
  /** Writes the complete current state. If it rejects, the old file stays. */
  readonly write: (terms: WriteTerms) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Milliseconds from the end of one write to the next, at least. The pause saves flash memory. */
const PERIOD = 60_000;

/** The pause after a write, as a multiple of its duration: half a percent of a processor at most. */
const REST = 50;

/** The longest such pause in milliseconds. */
const LONGEST_REST = 600_000;

/** Milliseconds from a first change to its write, so that one write has a burst of changes. */
const DELAY = 5_000;

/** Milliseconds that a stop waits for a last write. The unit allows 15 s. */
const STOP_LIMIT = 5_000;

/** Milliseconds of a pause within a write, for syncs. */
const PAUSE = 1;

/** Keeps the state file up to date. Without changes, no timer runs. */
export class StateKeeper {
  readonly #stopping = new AbortController();
  readonly #outOfTime = new AbortController();
  /** The monotonic time of the first unwritten change; `undefined` if all are written. */
  #waitingSince: number | undefined;
  /** The monotonic time of the last write. */
  #written: number | undefined;
  /** The monotonic time before which no write begins. */
  #restsUntil = -Infinity;
  #failure: string | undefined;
  #running: Promise<void> | undefined;

  /** The time of the file that was found at the start, milliseconds since the epoch; 0 without a file. */
  foundTime = 0;

  constructor(private readonly options: StateKeeperOptions) {}

  /** Takes the time of the existing file, milliseconds since the epoch; `undefined` if the file is not usable. */
  found(written: number | undefined): void {
    if (written === undefined) return;
    const { clock } = this.options;
    this.foundTime = written;
    // The clock may have been set back since then.
    this.#written = clock.monotonic() - Math.max(0, clock.now() - written);
  }

  /** Notes that the kernel holds a newer state than the file. Called once the source has delivered all kinds. */
  changed(): void {
    this.#waitingSince ??= this.options.clock.monotonic();
    if (!this.#stopping.signal.aborted) this.#running ??= this.#run();
  }

  /** Returns the seconds since the last write, or `undefined` without a usable file. */
  age(): number | undefined {
    if (this.#written === undefined) return undefined;
    return (this.options.clock.monotonic() - this.#written) / 1000;
  }

  /** Writes pending changes, then stops. A write beyond the limit is given up, and the old file stays. */
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
      // Syncs end before a stop, so a write at the stop does not pause.
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
