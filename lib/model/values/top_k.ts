/**
 * Returns the first K entries of an order without sorting all entries.
 *
 * @module
 */

/** Extra entries that are kept before each sort: fewer sorts cost less in all. */
const SPARE = 1_000;

/** Keeps the first K of all entries that are added. */
export class TopK<T> {
  readonly #most: number;
  readonly #compare: (one: T, other: T) => number;
  #kept: T[] = [];

  /**
   * @param most the number of entries to return
   * @param compare as for `sort`
   */
  constructor(most: number, compare: (one: T, other: T) => number) {
    this.#most = most;
    this.#compare = compare;
  }

  /** Adds an entry, and sorts the kept entries now and then. */
  add(thing: T): void {
    if (this.#kept.push(thing) >= 2 * this.#most + SPARE) this.#kept = this.inOrder();
  }

  /** Returns the first K entries in order. */
  inOrder(): T[] {
    return this.#kept.sort(this.#compare).slice(0, this.#most);
  }
}
