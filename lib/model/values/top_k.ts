/**
 * Returns the first K entries of an order without sorting all entries.
 *
 * @module
 */

/** Things that are kept at once beside those that are wanted: sorting few at a time costs more in all. */
const SPARE = 1_000;

/** Keeps the first of what is added. */
export class TopK<T> {
  readonly #most: number;
  readonly #compare: (one: T, other: T) => number;
  #kept: T[] = [];

  /**
   * @param most how many are wanted
   * @param compare as for `sort`
   */
  constructor(most: number, compare: (one: T, other: T) => number) {
    this.#most = most;
    this.#compare = compare;
  }

  /** Adds one. Now and then, all that are kept are sorted: `most` decides how long that takes. */
  add(thing: T): void {
    if (this.#kept.push(thing) >= 2 * this.#most + SPARE) this.#kept = this.inOrder();
  }

  /** The first ones, in their order. */
  inOrder(): T[] {
    return this.#kept.sort(this.#compare).slice(0, this.#most);
  }
}
