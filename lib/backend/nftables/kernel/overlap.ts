/**
 * Transactions one after the other, of which `nft` reads the next one while the kernel takes one: half of its work.
 *
 * @module
 */

/** What a script must end with. Without it, nft can but read, and an input that ends before it is an error. */
const CLOSING = "}\n";

/** Begins each step when the one before the last has ended, so that there are two at most. */
export class Overlap {
  #before = Promise.resolve();
  #last = Promise.resolve();

  /**
   * Begins a step. Whether it failed is seen when the next but one begins, or at the end.
   *
   * @param step is given the end of the one before, which fails where that failed
   * @throws what an earlier step threw
   */
  async begin(step: (before: Promise<void>) => Promise<void>): Promise<void> {
    await this.#before;
    [this.#before, this.#last] = [this.#last, step(this.#last)];
    this.#last.catch(() => {});
  }

  /** Waits for all. @throws what a step threw */
  async end(): Promise<void> {
    await this.#before;
    await this.#last;
  }
}

/**
 * The pieces of a script (for `Nft.stream`) of which nft can take the end when another step has ended.
 *
 * @param options `mark`: gives the commands that end the transaction
 * @throws what the other step threw
 */
export async function* heldBack(
  script: string,
  { before, mark }: { readonly before: Promise<void>; readonly mark: () => string },
): AsyncGenerator<string> {
  yield script.slice(0, -CLOSING.length);
  await before;
  yield CLOSING + mark();
}
