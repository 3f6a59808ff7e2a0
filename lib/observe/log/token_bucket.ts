/**
 * A rate limit that lets short bursts through.
 *
 * @module
 */

/** Size and speed of a bucket. */
export interface TokenBucketOptions {
  /** Tokens in a full bucket; it starts full. */
  readonly burst: number;
  /** Milliseconds in which one token comes back. */
  readonly refill: number;
}

/** A token bucket; the caller tells the time. */
export class TokenBucket {
  readonly #options: TokenBucketOptions;
  #tokens: number;
  #countedAt: number;

  /** @param now monotonic milliseconds */
  constructor(now: number, options: TokenBucketOptions) {
    this.#options = options;
    this.#tokens = options.burst;
    this.#countedAt = now;
  }

  /**
   * Takes a token.
   *
   * @param now monotonic milliseconds
   * @returns whether there was one
   */
  take(now: number): boolean {
    const { burst, refill } = this.#options;
    this.#tokens = Math.min(burst, this.#tokens + (now - this.#countedAt) / refill);
    this.#countedAt = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}
