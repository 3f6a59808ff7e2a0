/** Implements collections of bounded size. */

/** A map that drops its oldest key when it is full. */
export class BoundedMap<K, V> {
  readonly #entries = new Map<K, V>();

  constructor(private readonly capacity: number) {}

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  /** Sets a value and makes its key the newest. */
  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.capacity) return;
    const oldest = this.#entries.keys().next();
    if (!oldest.done) this.#entries.delete(oldest.value);
  }

  delete(key: K): boolean {
    return this.#entries.delete(key);
  }
}

/** Extra entries that are kept before each sort: fewer sorts cost less in all. */
const SPARE = 1_000;

/** Keeps the first K of all entries that are added. */
export class TopK<T> {
  #kept: T[] = [];

  constructor(
    private readonly most: number,
    private readonly compare: (a: T, b: T) => number,
  ) {}

  add(thing: T): void {
    if (this.#kept.push(thing) >= 2 * this.most + SPARE) this.#kept = this.inOrder();
  }

  inOrder(): T[] {
    return this.#kept.sort(this.compare).slice(0, this.most);
  }
}
