/**
 * Waiting times between tries.
 *
 * @module
 */

/** How long to wait; milliseconds. */
export interface BackoffLimits {
  /** The first waiting time. */
  readonly first: number;
  /** The longest waiting time. */
  readonly longest: number;
}

/** Waiting times that double, each drawn from the upper half of its range so that nodes spread. */
export class Backoff {
  #failures = 0;

  /** @param random 0 to 1, as `Math.random` */
  constructor(private readonly limits: BackoffLimits, private readonly random: () => number) {}

  /** Failures since the last `reset`. */
  get failures(): number {
    return this.#failures;
  }

  /**
   * Counts a failure.
   *
   * @param atLeast milliseconds that the server asked for; its spread is added on top
   * @returns milliseconds to wait
   */
  next(atLeast = 0): number {
    const { first, longest } = this.limits;
    const range = Math.min(longest, first * 2 ** Math.min(this.#failures, 30));
    this.#failures++;
    const spread = 0.5 + this.random() / 2;
    return Math.max(range * spread, atLeast + (atLeast > 0 ? first * this.random() : 0));
  }

  /** All is well again. */
  reset(): void {
    this.#failures = 0;
  }
}
