/**
 * Computes waiting times between retries.
 *
 * @module
 */

/** The limits of a waiting time, in milliseconds. */
export interface BackoffLimits {
  /** The first waiting time. */
  readonly first: number;
  /** The longest waiting time. */
  readonly longest: number;
}

/** Returns the waiting time after a number of earlier ones. It doubles, up to the longest. */
export function delayAfter({ first, longest }: BackoffLimits, others: number): number {
  return Math.min(longest, first * 2 ** Math.min(others, 30));
}

/**
 * Doubles the waiting time after each failure. A random factor of 0.5 to 1 spreads the nodes that
 * ask one server.
 */
export class Backoff {
  #failures = 0;

  /** @param random as `Math.random`; 1 by default, which means no spread */
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
   * @param atLeast milliseconds that the server asked for; the spread is added
   * @returns milliseconds to wait
   */
  next(atLeast = 0): number {
    const { first } = this.limits;
    const range = delayAfter(this.limits, this.#failures);
    this.#failures++;
    const spread = 0.5 + this.random() / 2;
    return Math.max(range * spread, atLeast + (atLeast > 0 ? first * this.random() : 0));
  }

  /** Resets the count after a success. */
  reset(): void {
    this.#failures = 0;
  }
}
