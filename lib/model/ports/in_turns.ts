/** Runs long work in turns, so that the event loop can do other work between them. */
import { placeOf } from "../values/lists.ts";
import type { Clock } from "./ports.ts";

/** Runs work to its end without a break. */
export function atOnce<T>(work: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Entries that are copied without a break. */
const BATCH = 100;

export function* copying<K, V>(map: ReadonlyMap<K, V>): Generator<undefined, Map<K, V>> {
  const copy = new Map<K, V>();
  for (const [key, value] of map) {
    copy.set(key, value);
    if (copy.size % BATCH === 0) yield;
  }
  return copy;
}

/** Entries that are sorted without a break. */
const RUN = 1_000;

/** A sorted run and the position of its next entry. */
interface SortedRun<T> {
  readonly number: number;
  readonly items: readonly T[];
  head: T;
  next: number;
}

/**
 * Sorts, and yields each entry on demand. It makes no large list, because V8 marks that in one pause.
 * @yields `undefined` when other work can run, as `items` do
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
  // The run with the first entry comes last.
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

/** Milliseconds of a turn. The timer between two of them takes 1 ms. */
const TURN = 20;

/**
 * Splits long work by time. Yield at least every 50 to 100 KB of new objects: while V8 marks a
 * large heap late, each 64 KB cost 5 ms (`IncrementalMarking::AdvanceOnAllocation`).
 */
export class Turns {
  readonly #clock: Pick<Clock, "monotonic" | "sleep">;
  #began: number;

  /** @param clock measures the turn; the first one begins now */
  constructor(clock: Pick<Clock, "monotonic" | "sleep">) {
    this.#clock = clock;
    this.#began = clock.monotonic();
  }

  /** Lets other work run if this turn has lasted long enough. Cheap to call often. */
  async giveWay(): Promise<void> {
    if (this.#clock.monotonic() - this.#began < TURN) return;
    await this.#clock.sleep(0);
    this.#began = this.#clock.monotonic();
  }

  /** Runs work to its end, and gives way at each yield. */
  async run<T>(work: Generator<undefined, T>): Promise<T> {
    for (;;) {
      const { done, value } = work.next();
      if (done) return value;
      await this.giveWay();
    }
  }
}
