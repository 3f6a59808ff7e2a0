/**
 * Long work in turns: the event loop does other work between two of them.
 *
 * @module
 */
import { placeOf } from "../values/lists.ts";
import type { Clock } from "./ports.ts";

/** Work that gives results before its end, and `undefined` where other work can be done: what it gives is passed over. */
export function* resultOf<T>(work: Generator<unknown, T>): Generator<undefined, T> {
  for (;;) {
    const next = work.next();
    if (next.done) return next.value;
    if (next.value === undefined) yield;
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

/** Entries that are sorted at one go. */
const RUN = 1_000;

/** Entries of which some, in order, were given. */
interface SortedRun<T> {
  /** Its place among all runs. */
  readonly number: number;
  readonly items: readonly T[];
  head: T;
  next: number;
}

/**
 * Sorts, and gives each entry when it is asked for. No list of very many is made: V8 marks what it has not marked
 * yet, at one go, where a large one is asked for.
 *
 * @param items may have `undefined`, where other work can be done
 * @param compare as for `toSorted`
 * @yields also `undefined`, where other work can be done
 */
export function* sorting<T extends NonNullable<unknown>>(
  items: Iterable<T | undefined>,
  compare: (a: T, b: T) => number,
): Generator<T | undefined, void> {
  const runs: SortedRun<T>[] = [];
  let run: T[] = [];
  const end = () => {
    const [head] = run.sort(compare);
    if (head !== undefined) runs.push({ number: runs.length, items: run, head, next: 1 });
    run = [];
  };
  for (const each of items) {
    if (each !== undefined && run.push(each) < RUN) continue;
    if (each !== undefined) end();
    yield undefined;
  }
  end();
  // The run with the first entry is the last one.
  const backwards = (a: SortedRun<T>, b: SortedRun<T>) =>
    compare(b.head, a.head) || b.number - a.number;
  runs.sort(backwards);
  for (let first = runs.pop(); first; first = runs.pop()) {
    yield first.head;
    const head = first.items[first.next++];
    if (head === undefined) continue;
    first.head = head;
    runs.splice(placeOf(first, runs, backwards), 0, first);
  }
}

/** Sorts the entries of a map by their keys, as `sorting` does. */
export function sortingByKey<V>(
  entries: Iterable<readonly [string, V]>,
): Generator<(readonly [string, V]) | undefined, void> {
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
