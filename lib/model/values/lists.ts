/**
 * Lists that are kept for as long as there is their Service: many, and most with one entry or none.
 *
 * @module
 */

/** Shared by all empty lists. */
const NONE: readonly never[] = [];

/** The same list without room to grow: what `push`, `filter` and `flatMap` make has room for 17 at least. */
export function compact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NONE : list.slice();
}

/** The entries for which something holds; the list itself, where that is so of all. */
export function only<T>(list: readonly T[], holds: (each: T) => boolean): readonly T[] {
  return list.every(holds) ? list : compact(list.filter(holds));
}

/** Appends entries of any number: `push(...more)` throws a RangeError above some 125,000 (V8). */
export function append<T>(list: T[], more: Iterable<T>): void {
  for (const each of more) list.push(each);
}

/** Where an entry stands in a sorted list, or is to stand. */
export function placeOf<T extends NonNullable<unknown>>(
  entry: T,
  sorted: readonly T[],
  compare: (a: T, b: T) => number,
): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const each = sorted[middle];
    if (each !== undefined && compare(each, entry) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A set with more; no list of all is made. */
export function withAll<T>(some: ReadonlySet<T>, others: Iterable<T>): Set<T> {
  const all = new Set(some);
  for (const each of others) all.add(each);
  return all;
}

/** Entries that are passed over at one go. */
const PASSED = 100;

/**
 * What is in a set, and then what else there is; no list of all is made.
 *
 * @param others may have `undefined`, which is passed on
 * @yields also `undefined`, where other work can be done: many of the others may be in the set
 */
export function* union<T extends NonNullable<unknown>>(
  set: ReadonlySet<T>,
  others: Iterable<T | undefined>,
): Generator<T | undefined, void> {
  yield* set;
  let passed = 0;
  for (const each of others) {
    if (each === undefined || !set.has(each)) yield each;
    else if (++passed % PASSED === 0) yield undefined;
  }
}

/** Keys that both have; the work follows the smaller one. What has been told of may be deleted meanwhile. */
export function* sharedKeys<K>(
  one: ReadonlySetLike<K>,
  other: ReadonlySetLike<K>,
): Generator<K, void> {
  const [few, many] = one.size < other.size ? [one, other] : [other, one];
  const keys = few.keys();
  for (let next = keys.next(); !next.done; next = keys.next()) {
    if (many.has(next.value)) yield next.value;
  }
}
