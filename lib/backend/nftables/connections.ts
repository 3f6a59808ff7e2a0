/**
 * Reads what the elements of frontends have counted.
 *
 * @module
 */
import type { ConnectionCounters, FrontendCount } from "../../model/kernel/connections.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { NftablesDataplane } from "./dataplane.ts";
import { countingMaps, countsIn } from "./kernel/connection_counts.ts";
import type { Nft } from "./kernel/nft.ts";

/** What is read, and how. */
export interface ElementCountersOptions {
  readonly nft: Pick<Nft, "listSet">;
  readonly dataplane: Pick<
    NftablesDataplane,
    "beside" | "elements" | "replacements" | "hasWritten"
  >;
  readonly clock: Pick<Clock, "sleep">;
}

/** Milliseconds that a transaction waits for a listing at most. */
const LONGEST_WAIT = 2_000;

/** Most frontends that are read before the table is replaced: so much longer it takes then. */
const MOST_KEPT = 20_000;

/** The counters in the maps that lead to the frontends' chains. */
export class ElementCounters implements ConnectionCounters {
  /** By `nft monitor`, with the word that an element was deleted. */
  readonly tellsGone = true;
  readonly #options: ElementCountersOptions;
  readonly #listeners: ((last: FrontendCount) => void)[] = [];
  /** Frontends that went while the table is read back or replaced. */
  #goneMeanwhile: Set<string> | undefined;

  /** @param options what to read */
  constructor(options: ElementCountersOptions) {
    this.#options = options;
  }

  /** A large table of before that was read back has counted on. */
  get areOurs(): boolean {
    return this.#options.dataplane.hasWritten;
  }

  /** @inheritdoc */
  async read(): Promise<Iterable<FrontendCount>> {
    const { dataplane, clock } = this.#options;
    const enough = new AbortController();
    try {
      const longest = () => clock.sleep(LONGEST_WAIT, enough.signal);
      return allOf(await dataplane.beside(() => this.#list(), longest));
    } finally {
      enough.abort();
    }
  }

  /** @inheritdoc */
  onGone(listener: (last: FrontendCount) => void): void {
    this.#listeners.push(listener);
  }

  /** An element goes; this it had counted. */
  tell(last: FrontendCount): void {
    this.#goneMeanwhile?.add(last.frontend);
    for (const listener of this.#listeners) listener(last);
  }

  /**
   * Replaces the table; `nft monitor` does not tell of elements that go with it. Connections of the
   * meantime are lost.
   */
  async acrossReplacement(replace: () => Promise<void>): Promise<void> {
    const { dataplane } = this.#options;
    const { elements, replacements } = dataplane;
    const sum = countingMaps(elements).reduce((sum, map) => sum + (elements.get(map) ?? 0), 0);
    const isWanted = this.#listeners.length > 0 && sum > 0 && sum <= MOST_KEPT;
    const listings = isWanted ? await this.#list().catch(() => undefined) : undefined;
    const told = this.#goneMeanwhile = new Set<string>();
    try {
      await replace();
    } finally {
      this.#goneMeanwhile = undefined;
    }
    // A large table that was read back has counted on.
    if (!listings || dataplane.replacements === replacements) return;
    for (const last of allOf(listings)) {
      // Where it could be read back but in part, some went before it was replaced.
      if (last.connections > 0 && !told.has(last.frontend)) this.tell(last);
    }
  }

  async #list(): Promise<ReadonlyMap<string, string>> {
    const listings = new Map<string, string>();
    for (const map of countingMaps(this.#options.dataplane.elements)) {
      listings.set(map, await this.#options.nft.listSet({ kind: "map", name: map }));
    }
    return listings;
  }
}

function* allOf(listings: ReadonlyMap<string, string>): Iterable<FrontendCount> {
  for (const [map, listing] of listings) yield* countsIn(map, listing);
}
