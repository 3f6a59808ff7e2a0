/**
 * What the elements of the frontends' maps have counted. Nat chains see the first packet of each connection, so
 * a counter counts connections; a frontend is looked up in one of these maps, and once.
 *
 * @module
 */
import { keyInFamily } from "../../../model/cluster/names.ts";
import type { FrontendCount } from "../../../model/connections.ts";
import { parseKey, printKey } from "../script/keys.ts";
import { COUNTING_ROLE, setNamed } from "../script/sets.ts";

/** The maps whose elements count, of those that have any. */
export function countingMaps(elements: ReadonlyMap<string, number>): string[] {
  return [...elements.keys()].filter((name) => setNamed(name)?.role === COUNTING_ROLE);
}

/** An element with a counter, and with the Service's name from the comment. */
const COUNTED = /(\S+ \. \S+(?: \. \S+)?) counter packets (\d+) bytes \d+ comment "([^":]+)[^"]*"/g;

/**
 * The counts in a listing of one map, worked out one by one.
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
