/** Works on lists that stay as long as their Service. A cluster has very many, most with at most one entry. */

const NONE: readonly never[] = [];

/** Returns the list without spare capacity. `push`, `filter` and `flatMap` leave room for 17 entries. */
export function compact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NONE : list.slice();
}

/** Returns the entries that pass the test, or the list itself if all entries do. */
export function only<T>(list: readonly T[], holds: (each: T) => boolean): readonly T[] {
  return list.every(holds) ? list : compact(list.filter(holds));
}

/** Appends any number of entries. `push(...more)` throws a RangeError above some 125,000 (V8). */
export function append<T>(list: T[], more: Iterable<T>): void {
  for (const each of more) list.push(each);
}

/** Cuts a list into chunks of a weight up to `most`. Only a chunk of one item may weigh more. */
export function* chunks<T>(
  items: Iterable<T>,
  { weigh, most }: { readonly weigh: (item: T) => number; readonly most: number },
): Generator<readonly T[], void> {
  let chunk: T[] = [];
  let weight = 0;
  for (const item of items) {
    const more = weigh(item);
    if (chunk.length > 0 && weight + more > most) {
      yield chunk;
      [chunk, weight] = [[], 0];
    }
    chunk.push(item);
    weight += more;
  }
  if (chunk.length > 0) yield chunk;
}

/** Returns the position of an entry in a sorted list, or the position to insert it. */
export function sortedIndex<T extends NonNullable<unknown>>(
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
