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

/** The waiting time after so many others: twice the one before, up to the longest. */
export function delayAfter({ first, longest }: BackoffLimits, others: number): number {
  return Math.min(longest, first * 2 ** Math.min(others, 30));
}

/**
 * Waiting times that double. Where nodes ask the same server, each is drawn from the upper half of
 * its range, so that they spread.
 */
export class Backoff {
  #failures = 0;

  /** @param random 0 to 1, as `Math.random`; 1, so no spread, by default */
  constructor(
    private readonly limits: BackoffLimits,
    private readonly random: () => number = () => 1,
  ) {}

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
    const { first } = this.limits;
    const range = delayAfter(this.limits, this.#failures);
    this.#failures++;
    const spread = 0.5 + this.random() / 2;
    return Math.max(range * spread, atLeast + (atLeast > 0 ? first * this.random() : 0));
  }

  /** All is well again. */
  reset(): void {
    this.#failures = 0;
  }
}
