/**
 * A map of bounded size.
 *
 * @module
 */

/** A map that drops its oldest key when it is full. */
export class BoundedMap<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #capacity: number;

  /** @param capacity the greatest number of entries */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Returns the value of a key, if it is still there. */
  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  /** Sets a value and makes its key the newest. */
  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#capacity) return;
    const oldest = this.#entries.keys().next();
    if (!oldest.done) this.#entries.delete(oldest.value);
  }

  /** @returns true if the key was there */
  delete(key: K): boolean {
    return this.#entries.delete(key);
  }
}
