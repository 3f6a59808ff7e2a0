/**
 * Adds up what frontends have counted, however often their elements or rules are written again: such a
 * one counts from nothing. A sum never falls, and no connection counts twice.
 *
 * @module
 */
import type { FrontendCount } from "../../model/kernel/connections.ts";

/** Where connections that were not known before are added. */
export type AddConnections = (frontend: Omit<FrontendCount, "connections">, more: number) => void;

/** What each frontend had counted when it was last read. What it had before the first reading is not added. */
export class ConnectionSums {
  readonly #add: AddConnections;
  readonly #tellsGone: boolean;
  /** `undefined` until the first reading. */
  #last: Map<string, FrontendCount> | undefined;
  /** By frontend, the counts of the reading that is under way; `undefined`: none is. */
  #reading: Map<string, FrontendCount> | undefined;
  /** Frontends that went while the kernel was read: which count the listing has is not known. */
  readonly #gone = new Set<string>();
  /** Frontends that had gone or counted less at the last reading, and nothing was told of it yet. */
  #behind = new Set<string>();

  /**
   * @param add takes what is new
   * @param options.tellsGone whether `gone` is called for frontends that are written again, though late or,
   *   where events are lost, never
   */
  constructor(add: AddConnections, { tellsGone }: { readonly tellsGone: boolean }) {
    this.#add = add;
    this.#tellsGone = tellsGone;
  }

  /** A frontend goes or is written again; this it had counted. */
  gone(count: FrontendCount): void {
    if (this.#last) this.#addNew(count);
    this.#last?.delete(count.frontend);
    this.#behind.delete(count.frontend);
    if (!this.#reading) return;
    this.#reading.delete(count.frontend);
    this.#gone.add(count.frontend);
  }

  /** The kernel is about to be read. */
  begin(): void {
    this.#reading = new Map();
    this.#gone.clear();
  }

  /** A count of the listing. */
  seen(count: FrontendCount): void {
    // Most frontends of a node never meet a connection, and take no memory here.
    if (count.connections > 0 && !this.#gone.has(count.frontend)) {
      this.#reading?.set(count.frontend, count);
    }
  }

  /** All of the listing was seen. */
  end(): void {
    const now = this.#reading ?? new Map<string, FrontendCount>();
    const behind = new Set<string>();
    this.#reading = undefined;
    for (const last of this.#last?.values() ?? []) {
      const count = now.get(last.frontend);
      if (count?.service === last.service && count.connections >= last.connections) continue;
      if (!this.#tellsGone || this.#behind.has(last.frontend)) continue;
      // It went, or was written again: what it had counted until then is still to be told.
      behind.add(last.frontend);
      now.set(last.frontend, last);
    }
    if (this.#last) { for (const count of now.values()) this.#addNew(count); }
    this.#last = now;
    this.#behind = behind;
  }

  /** The reading failed. */
  fail(): void {
    this.#reading = undefined;
  }

  /** Adds what was not known of a count. One that is less, or of another Service, began at nothing. */
  #addNew(count: FrontendCount): void {
    const last = this.#last?.get(count.frontend);
    const isSame = last?.service === count.service && last.connections <= count.connections;
    const more = count.connections - (isSame ? last.connections : 0);
    if (more > 0) this.#add(count, more);
  }
}
