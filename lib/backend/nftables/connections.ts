/**
 * Reads what the elements of frontends have counted.
 *
 * @module
 */
import type { ConnectionCounters, FrontendCount } from "../../model/connections.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { NftablesDataplane } from "./dataplane.ts";
import type { Nft } from "./kernel/nft.ts";
import { keyInFamily } from "../../model/cluster/names.ts";
import { parseKey, printKey } from "./script/keys.ts";
import { COUNTING_ROLE, setNamed } from "./script/sets.ts";

/** What is read, and how. */
export interface ElementCountersOptions {
  readonly nft: Pick<Nft, "listSet">;
  readonly dataplane: Pick<NftablesDataplane, "beside" | "elements" | "hasWritten">;
  readonly clock: Pick<Clock, "sleep">;
}

/** Milliseconds that a transaction waits for a listing at most. */
const LONGEST_WAIT = 2_000;

/** The counters in the maps that lead to the frontends' chains. */
export class ElementCounters implements ConnectionCounters {
  readonly #options: ElementCountersOptions;

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

/** Returns the maps with elements that count connections: nat chains see the first packet of each, once. */
export function countingMaps(elements: ReadonlyMap<string, number>): string[] {
  return [...elements.keys()].filter((name) => setNamed(name)?.role === COUNTING_ROLE);
}

/** An element with a counter, and with the Service's name from the comment. */
const COUNTED = /(\S+ \. \S+(?: \. \S+)?) counter packets (\d+) bytes \d+ comment "([^":]+)[^"]*"/g;

/**
 * Yields the counts in a listing of one map.
 *
 * @param listing what `nft list map` prints
 */
export function* countsIn(map: string, listing: string): Iterable<FrontendCount> {
  const set = setNamed(map);
  if (set?.role !== COUNTING_ROLE || set.family === undefined) return;
  for (const [, text = "", packets, service = ""] of listing.matchAll(COUNTED)) {
    const key = parseKey(set, text);
    if (!key) continue;
    const frontend = keyInFamily(set.family, printKey(key));
    yield { frontend, service, connections: Number(packets) };
  }
}
