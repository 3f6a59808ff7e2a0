/**
 * How long the syncs of the last hour took. However many they were, what is kept is bounded.
 *
 * @module
 */
import type { Clock } from "../model/ports/ports.ts";
import type { SyncSummary } from "../model/status.ts";

/** Seconds that are kept. */
export const HISTORY_SECONDS = 3_600;

/** Seconds that are one span. */
const SPAN_SECONDS = 30;

/** The syncs of one kind in one half minute. */
export interface SyncSpan {
  readonly kind: SyncSummary["kind"];
  /** Seconds from the middle of the span until now. */
  readonly age: number;
  readonly count: number;
  /** Seconds. */
  readonly least: number;
  readonly mean: number;
  readonly most: number;
}

interface Sums {
  readonly kind: SyncSummary["kind"];
  /** Number of the half minute, of the monotonic clock. */
  readonly span: number;
  count: number;
  total: number;
  least: number;
  most: number;
}

/** Gathers syncs by half minutes. A clock that is set does not move them. */
export class SyncHistory {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #sums = new Map<string, Sums>();

  /** @param clock tells spans apart */
  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** A sync has ended. */
  add({ kind, seconds }: Pick<SyncSummary, "kind" | "seconds">): void {
    const span = Math.floor(this.#now() / SPAN_SECONDS);
    const key = `${span} ${kind}`;
    const sums = this.#sums.get(key);
    if (sums) {
      sums.count += 1;
      sums.total += seconds;
      sums.least = Math.min(sums.least, seconds);
      sums.most = Math.max(sums.most, seconds);
    } else {
      this.#sums.set(key, { kind, span, count: 1, total: seconds, least: seconds, most: seconds });
      this.#forget();
    }
  }

  /** The last hour, the oldest first. */
  spans(): SyncSpan[] {
    this.#forget();
    const now = this.#now();
    return [...this.#sums.values()].map(({ kind, span, count, total, least, most }) => ({
      kind,
      age: Math.max(0, now - (span + 0.5) * SPAN_SECONDS),
      count,
      least,
      mean: total / count,
      most,
    }));
  }

  #forget(): void {
    const oldest = (this.#now() - HISTORY_SECONDS) / SPAN_SECONDS;
    for (const [key, { span }] of this.#sums) {
      if (span < oldest) this.#sums.delete(key);
    }
  }

  #now(): number {
    return this.#clock.monotonic() / 1000;
  }
}
