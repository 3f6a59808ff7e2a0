/** Queues Services (`namespace/name`) for syncs, with fair turns for their namespaces. */
import { splitKey } from "../model/cluster/names.ts";

export interface Share {
  /** The cost, in elements, that ends a sync's share. */
  readonly most: number;
  readonly costOf: (key: string) => number;
}

/** A queue that holds each Service once. Namespaces without a turn come before those that had one. */
export class FairQueue {
  /** Services that were added since the last turn. */
  #incoming = new Set<string>();
  /** Services that wait longer, by namespace: those without a turn so far, and those with one. */
  readonly #fresh = new Map<string, Set<string>>();
  readonly #served = new Map<string, Set<string>>();
  /** The Service that begins the next share, because the last one had no room for it. */
  #first: string | undefined;

  get isEmpty(): boolean {
    return this.#incoming.size === 0 && !this.#hasBacklog;
  }

  get #hasBacklog(): boolean {
    return this.#first !== undefined || this.#fresh.size + this.#served.size > 0;
  }

  has(key: string): boolean {
    if (key === this.#first) return true;
    const { namespace } = splitKey(key);
    return [this.#incoming, this.#fresh.get(namespace), this.#served.get(namespace)]
      .some((keys) => keys?.has(key));
  }

  add(key: string): void {
    this.#incoming.add(key);
  }

  /**
   * Takes Services, one of each namespace in turn, up to the cost of one share. Among new Services, those that cost less
   * come first. A Service that costs more than a share is taken alone.
   */
  take({ most, costOf }: Share = { most: Infinity, costOf: () => 0 }): ReadonlySet<string> {
    const incoming = this.#incoming;
    this.#incoming = new Set();
    const byCost = [...incoming].map((key) => ({ key, cost: costOf(key) }))
      .sort((a, b) => a.cost - b.cost);
    const total = byCost.reduce((sum, { cost }) => sum + cost, 0);
    if (!this.#hasBacklog && (total <= most || incoming.size === 1)) return incoming;
    for (const { key } of byCost) if (key !== this.#first) this.#enqueue(key);
    const taken = new Set<string>();
    for (let cost = 0; cost < most;) {
      const key = this.#next();
      if (key === undefined) break;
      cost += costOf(key);
      if (cost > most && taken.size > 0) {
        this.#first = key;
        break;
      }
      taken.add(key);
    }
    return taken;
  }

  #enqueue(key: string): void {
    const { namespace } = splitKey(key);
    const keys = this.#served.get(namespace) ?? this.#fresh.get(namespace);
    if (keys) keys.add(key);
    else this.#fresh.set(namespace, new Set([key]));
  }

  #next(): string | undefined {
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) return first;
    const waiting = this.#fresh.size > 0 ? this.#fresh : this.#served;
    for (const [namespace, keys] of waiting) {
      waiting.delete(namespace);
      const [key] = keys;
      if (key === undefined) continue;
      keys.delete(key);
      if (keys.size > 0) this.#served.set(namespace, keys);
      return key;
    }
    return undefined;
  }
}
