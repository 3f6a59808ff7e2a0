/** Sets the pauses between syncs, and between repairs. */
import type { MinSyncPeriod } from "../model/configuration.ts";
import { type BackoffLimits, delayAfter, type LimiterOptions } from "../model/values/timing.ts";

/** The longest adaptive pause in milliseconds. */
export const LONGEST_PAUSE = 1_000;

/** Pauses are this many times as long as syncs, so that syncs take a fifth of the time. */
const FACTOR = 4;

/** The number of syncs that set a pause. */
const COUNTED = 3;

/** A longer sync counts as this many milliseconds. */
const LONGEST_COUNTED = LONGEST_PAUSE / FACTOR;

/** Milliseconds of the longest pause before an urgent sync. */
const URGENT_PAUSE = 100;

const BACKOFF: BackoffLimits = { first: 1_000, longest: 30_000 };

/** Follows syncs, and returns the pauses between them. All times are monotonic milliseconds. */
export class SyncPauses {
  readonly #minSyncPeriod: MinSyncPeriod;
  /** Milliseconds of the last syncs since a quiet second, the newest last. */
  #durations: readonly number[] = [];
  #failures = 0;
  #ended = -Infinity;

  constructor(minSyncPeriod: MinSyncPeriod) {
    this.#minSyncPeriod = minSyncPeriod;
  }

  /**
   * Returns the pause if nothing is urgent and no sync failed. An adaptive one follows the mean of the
   * last three syncs, so that a slow one is paid for in three pauses.
   */
  get usual(): number {
    if (this.#minSyncPeriod !== "adaptive") return this.#minSyncPeriod;
    const counted = this.#durations.map((each) => Math.min(each, LONGEST_COUNTED));
    return counted.reduce((sum, each) => sum + each, 0) * FACTOR / COUNTED;
  }

  /** Returns the time at which the next sync may begin. `isUnfinished`: the last one left changes. */
  next({ isUrgent, isUnfinished }: {
    readonly isUrgent: boolean;
    readonly isUnfinished: boolean;
  }): number {
    if (this.#failures > 0) {
      return this.#ended + Math.max(this.usual, delayAfter(BACKOFF, this.#failures - 1));
    }
    if (isUnfinished) return this.#ended;
    return this.#ended + (isUrgent ? Math.min(this.usual, URGENT_PAUSE) : this.usual);
  }

  begin(now: number): void {
    if (now - this.#ended > LONGEST_PAUSE) this.#durations = [];
  }

  end(
    now: number,
    { began, isFailed }: { readonly began: number; readonly isFailed: boolean },
  ): void {
    this.#ended = now;
    this.#durations = [...this.#durations, now - began].slice(-COUNTED);
    this.#failures = isFailed ? this.#failures + 1 : 0;
  }
}

/** Limits repairs: two programs that undo each other must not take all of the processor. */
export const REPAIRS: LimiterOptions = { atOnce: 5, pauses: BACKOFF };
