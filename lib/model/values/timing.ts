/** Spaces repeated work in time: retries, limited runs, readings on demand, and waits for an event. */
import type { Clock } from "../ports/ports.ts";

export interface BackoffLimits {
  readonly first: number;
  readonly longest: number;
}

/** Returns the waiting time after a number of earlier waits. It doubles, up to the longest. */
export function delayAfter({ first, longest }: BackoffLimits, earlier: number): number {
  return Math.min(longest, first * 2 ** Math.min(earlier, 30));
}

/** Doubles the waiting time after each failure. A random factor of 0.5 to 1 spreads the nodes. */
export class Backoff {
  #failures = 0;

  /** @param random as `Math.random`; the default of 1 does not spread */
  constructor(
    private readonly limits: BackoffLimits,
    private readonly random: () => number = () => 1,
  ) {}

  get failures(): number {
    return this.#failures;
  }

  /** Counts a failure. @returns milliseconds to wait. @param atLeast the milliseconds that the server asked for */
  next(atLeast = 0): number {
    const { first } = this.limits;
    const range = delayAfter(this.limits, this.#failures);
    this.#failures++;
    const spread = 0.5 + this.random() / 2;
    return Math.max(range * spread, atLeast + (atLeast > 0 ? first * this.random() : 0));
  }

  reset(): void {
    this.#failures = 0;
  }
}

export interface LimiterOptions {
  /** The number of runs in a row without a pause. */
  readonly atOnce: number;
  /** The pauses between further runs. The longest pause without a run ends the row. */
  readonly pauses: BackoffLimits;
}

/** Limits runs: some at once, then with growing pauses. */
export class Limiter {
  #inARow = 0;
  #last = -Infinity;

  constructor(private readonly options: LimiterOptions) {}

  /** Returns the pause before the next run, and the time of that run. */
  next(now: number): { readonly pause: number; readonly at: number } {
    const { atOnce, pauses } = this.options;
    if (now - this.#last > pauses.longest) this.#inARow = 0;
    const more = this.#inARow - atOnce;
    const pause = more < 0 ? 0 : delayAfter(pauses, more);
    this.#inARow++;
    this.#last = Math.max(now, this.#last + pause);
    return { pause, at: this.#last };
  }
}

/** Milliseconds for which a reading is returned again. */
const READING_VALID = 5_000;
/** Milliseconds to wait for a reading before the last value is returned. */
const PATIENCE = 2_000;

interface BoundedReadingOptions<T> {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly refresh: () => Promise<void>;
  readonly known: () => T;
}

/** Returns a reader that refreshes a value older than `valid` milliseconds; a failure keeps the last value. */
export function boundedReading<T>(
  { clock, refresh, known }: BoundedReadingOptions<T>,
): (valid?: number) => Promise<T> {
  let running: Promise<void> | undefined;
  let at = -Infinity;
  const begin = () => {
    at = clock.monotonic();
    return refresh().catch(() => {}).finally(() => running = undefined);
  };
  return async (valid = READING_VALID) => {
    if (!running && clock.monotonic() - at >= valid) running = begin();
    if (running) {
      const enough = new AbortController();
      await Promise.race([running, clock.sleep(PATIENCE, enough.signal)]);
      enough.abort();
    }
    return known();
  };
}

/** Wakes one waiter. Its next wait ends at once if the event was set earlier. */
export class AutoResetEvent {
  #isSet = false;
  #end: (() => void) | undefined;

  /** @param clock ends waits without an event */
  constructor(private readonly clock: Clock) {}

  set(): void {
    this.#isSet = true;
    this.#end?.();
  }

  /** Waits for the event, the time or the abort. @returns true if the event was set */
  async wait(milliseconds: number, signal?: AbortSignal): Promise<boolean> {
    if (!this.#isSet && !signal?.aborted) {
      const over = new AbortController();
      const end = this.#end = () => over.abort();
      signal?.addEventListener("abort", end);
      await this.clock.sleep(milliseconds, over.signal);
      signal?.removeEventListener("abort", end);
      this.#end = undefined;
    }
    const wasSet = this.#isSet;
    this.#isSet = false;
    return wasSet;
  }
}
