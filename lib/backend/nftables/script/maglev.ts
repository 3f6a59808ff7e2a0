/**
 * The lookup table of consistent hashing: Maglev, section 3.4 (Eisenbud et al., NSDI 2016).
 *
 * Each endpoint has an order of its own in which it wants the slots. They take turns; in its turn an
 * endpoint takes the first slot of its order that is free. All get the same number of slots, give or
 * take one; where an endpoint goes, most slots of the others stay.
 *
 * The table follows from the endpoints alone: every node has the same one for the same endpoints. Only
 * 32-bit integer arithmetic is used, so that all JavaScript engines agree.
 *
 * @module
 */

import { hash32 } from "../../../model/values/hash.ts";

/** What an endpoint is known by. */
interface Named {
  readonly address: string;
  readonly port: number;
}

/**
 * Works out who has which slot.
 *
 * @param endpoints in any order; none: an empty table
 * @param size the number of slots, a prime
 * @returns the endpoint of each slot
 */
export function maglevTable<T extends Named>(endpoints: readonly T[], size: number): readonly T[] {
  if (endpoints.length === 0) return [];
  const turns = [...endpoints].sort(byName).map((endpoint) => {
    const name = `${endpoint.address} ${endpoint.port}`;
    return {
      endpoint,
      slot: hash32(name, OFFSET_SEED) % size,
      skip: hash32(name, SKIP_SEED) % (size - 1) + 1,
    };
  });
  const table = new Map<number, T>();
  while (table.size < size) {
    for (const turn of turns) {
      if (table.size === size) break;
      while (table.has(turn.slot)) turn.slot = (turn.slot + turn.skip) % size;
      table.set(turn.slot, turn.endpoint);
    }
  }
  return [...table].sort(([one], [other]) => one - other).map(([, endpoint]) => endpoint);
}

/** Two hashes of one name that have nothing to do with each other. Nodes of all versions must agree on them. */
const OFFSET_SEED = 1;
const SKIP_SEED = 2;

function byName(one: Named, other: Named): number {
  if (one.address === other.address) return one.port - other.port;
  return one.address < other.address ? -1 : 1;
}
