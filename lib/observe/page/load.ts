/**
 * How many connections come to a Service, by all its ports and frontends.
 *
 * @module
 */
import { objectKey } from "../../model/cluster/names.ts";
import type { ServiceConnections } from "../../model/connections.ts";

/** The connections of a Service. */
export type ServiceLoad = Pick<ServiceConnections, "connections" | "perSecond">;

/** By `namespace/name`, the Services that had connections. */
export type Load = ReadonlyMap<string, ServiceLoad>;

/** Sums by Service. Yields after each part. */
export function* loadOf(all: Iterable<ServiceConnections>): Generator<undefined, Load> {
  const load = new Map<string, ServiceLoad>();
  for (const { namespace, service: name, connections, perSecond } of all) {
    const key = objectKey({ namespace, name });
    const known = load.get(key) ?? { connections: 0, perSecond: 0 };
    load.set(key, {
      connections: known.connections + connections,
      perSecond: known.perSecond + perSecond,
    });
    yield;
  }
  return load;
}

/** The busiest first; those without connections by name. */
export function busiestFirst(load: Load): (a: string, b: string) => number {
  return (a, b) => {
    const [one, other] = [load.get(a), load.get(b)];
    return (other?.perSecond ?? 0) - (one?.perSecond ?? 0) ||
      (other?.connections ?? 0) - (one?.connections ?? 0) || (a < b ? -1 : 1);
  };
}
