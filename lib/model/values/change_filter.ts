/**
 * Passes a state once, until it changes, for log lines and Events.
 *
 * @module
 */
import { BoundedMap } from "./bounded_map.ts";

/** Remembers the last value of each of a bounded number of keys. */
export class ChangeFilter {
  readonly #last: BoundedMap<string, string>;

  /** @param capacity number of keys; when it is full, the oldest is dropped */
  constructor(capacity = 1024) {
    this.#last = new BoundedMap(capacity);
  }

  /**
   * Returns true if the key is new or its value changed.
   *
   * @param key the subject, for example `watch Service`
   * @param value its state, for example the error message
   */
  changed(key: string, value: string): boolean {
    const known = this.#last.get(key);
    this.#last.set(key, value);
    return known !== value;
  }

  /**
   * Forgets a key, so that its next value counts as changed.
   *
   * @returns true if the key was there
   */
  clear(key: string): boolean {
    return this.#last.delete(key);
  }
}
