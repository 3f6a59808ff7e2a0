/**
 * Says a thing once, until it changes: for log lines and Events about states that last.
 *
 * @module
 */
import { BoundedMap } from "./bounded_map.ts";

/** Remembers the last value of each of a bounded number of keys. */
export class ChangeFilter {
  readonly #last: BoundedMap<string, string>;

  /** @param capacity number of keys that are remembered; beyond it the oldest is forgotten */
  constructor(capacity = 1024) {
    this.#last = new BoundedMap(capacity);
  }

  /**
   * Whether this is news: the key is new, or has another value than before.
   *
   * @param key what it is about, for example `watch Service`
   * @param value its state, for example the error message
   */
  changed(key: string, value: string): boolean {
    const known = this.#last.get(key);
    this.#last.set(key, value);
    return known !== value;
  }

  /**
   * Ends the state of a key: the next value is news again.
   *
   * @returns whether there was one
   */
  clear(key: string): boolean {
    return this.#last.delete(key);
  }
}
