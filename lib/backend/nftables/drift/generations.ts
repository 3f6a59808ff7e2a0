/**
 * Shows whether `nft monitor` missed what other programs did.
 *
 * The kernel numbers all transactions: each is a generation. We number ours (`marks.ts`). A generation that is
 * neither ours nor told to be another program's was missed, so of two transactions of ours the difference between
 * both numbers is the same, but for those of others that were told.
 *
 * @module
 */

/** Generations that two monitors may both tell of, at most: one takes over from the other. */
const REMEMBERED = 1_000;

/** Counts the transactions that `nft monitor` tells of. */
export class Generations {
  /** The latest ones. */
  readonly #told = new Set<number>();
  /** How many of all that were told other programs made. */
  #others = 0;
  /** How many are neither ours nor told; the next transaction of ours says it where it is `undefined`. */
  #untold: number | "unknown" | undefined;
  #isComplete = false;

  /**
   * Counts a transaction, once: two monitors may tell of it.
   *
   * @param mark our number of it; `undefined`: another program made it
   * @returns whether it was not told before
   */
  tell(generation: number, mark: number | undefined): boolean {
    if (this.#told.has(generation)) return false;
    this.#told.add(generation);
    const [oldest] = this.#told;
    if (oldest !== undefined && this.#told.size > REMEMBERED) this.#told.delete(oldest);
    if (mark === undefined) this.#others++;
    else {
      const untold = generation - mark - this.#others | 0;
      this.#untold ??= untold;
      this.#isComplete = untold === this.#untold;
    }
    return true;
  }

  /** A monitor has ended: the next transaction of ours shows what it missed, if one was told before. */
  interrupted(): void {
    this.#isComplete = false;
    this.#untold ??= "unknown";
  }

  /** Since the interruption, a transaction of ours has shown that no other program's was missed. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Begins again: a full sync sees to what may have been missed. */
  reset(): void {
    this.#untold = undefined;
  }
}
