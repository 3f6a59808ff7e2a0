/**
 * Long work in turns: the event loop does other work between two of them.
 *
 * @module
 */
import type { Clock } from "./ports.ts";

/** Work that gives results before its end, and `undefined` where other work can be done: what it gives is passed over. */
export function* resultOf<T>(work: Generator<unknown, T>): Generator<undefined, T> {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value as T;
    if (value === undefined) yield;
  }
}

/** Does work to its end at one go. */
export function atOnce<T>(work: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Entries that are copied at one go. */
const BATCH = 100;

/** Copies a large map. */
export function* copying<K, V>(map: ReadonlyMap<K, V>): Generator<undefined, Map<K, V>> {
  const copy = new Map<K, V>();
  for (const [key, value] of map) {
    copy.set(key, value);
    if (copy.size % BATCH === 0) yield;
  }
  return copy;
}

/** Entries that are sorted, or merged, at one go. */
const RUN = 1_000;

/** Sorts a list, as `toSorted` does; a short one at one go. */
export function* sorting<T extends NonNullable<unknown>>(
  list: readonly T[],
  compare: (a: T, b: T) => number,
): Generator<undefined, readonly T[]> {
  if (list.length <= RUN) return list.toSorted(compare);
  const middle = list.length >> 1;
  const low = yield* sorting(list.slice(0, middle), compare);
  const high = yield* sorting(list.slice(middle), compare);
  const sorted: T[] = [];
  for (let i = 0, j = 0;;) {
    const [one, other] = [low[i], high[j]];
    if (one === undefined || other === undefined) return sorted.concat(low.slice(i), high.slice(j));
    const isFirst = compare(one, other) <= 0;
    sorted.push(isFirst ? one : other);
    if (isFirst) i++;
    else j++;
    if (sorted.length % RUN === 0) yield;
  }
}

/** Sorts the entries of a map by their keys. */
export function sortingByKey<V>(
  entries: readonly (readonly [string, V])[],
): Generator<undefined, readonly (readonly [string, V])[]> {
  return sorting(entries, ([a], [b]) => a < b ? -1 : 1);
}

/** Milliseconds of a turn. */
const TURN = 5;

/**
 * Parts long work by the time that it takes. Give way at least every 50 to 100 KB of new objects: while V8
 * marks a large heap and is late, each 64 KB that are allocated cost 5 ms of marking (its
 * `IncrementalMarking::AdvanceOnAllocation`), and what is worked out at one go takes 20 times as long then.
 */
export class Turns {
  readonly #clock: Pick<Clock, "monotonic" | "sleep">;
  #began: number;

  /** @param clock tells how long a turn has lasted; the first one begins now */
  constructor(clock: Pick<Clock, "monotonic" | "sleep">) {
    this.#clock = clock;
    this.#began = clock.monotonic();
  }

  /** Lets other work be done where this turn has lasted long enough. Cheap: to be called often. */
  async giveWay(): Promise<void> {
    if (this.#clock.monotonic() - this.#began < TURN) return;
    await this.#clock.sleep(0);
    this.#began = this.#clock.monotonic();
  }

  /** Does work to its end, and gives way where it yields. */
  async run<T>(work: Generator<undefined, T>): Promise<T> {
    for (;;) {
      const { done, value } = work.next();
      if (done) return value;
      await this.giveWay();
    }
  }
}
