/**
 * How many connections came to each Service: the answer to `signpost top`.
 *
 * @module
 */
import type { Protocol } from "./cluster/objects.ts";
import type { FrontendType } from "./kernel/desired.ts";

/** Version of the report; it grows when a field goes or changes its meaning. */
export const CONNECTIONS_VERSION = 1;

/** New connections to one service port by one kind of frontend, of both families. */
export interface ServiceConnections {
  readonly namespace: string;
  readonly service: string;
  /** Number of the service port; of a node port too, it is the Service's own. */
  readonly port: number;
  readonly protocol: Protocol;
  readonly frontend: FrontendType;
  /** Since the daemon began to count; it never falls. */
  readonly connections: number;
  /** Over the time between the last two readings. */
  readonly perSecond: number;
}

/** Everything that `signpost top -o json` prints. */
export interface ConnectionsReport {
  readonly connectionsVersion: typeof CONNECTIONS_VERSION;
  readonly node: string;
  /** Why nothing is counted; `""`: it is. */
  readonly off: string;
  /** When the kernel was read, RFC 3339; `""`: it could not be yet. */
  readonly at: string;
  /** The time that `perSecond` is about; 0: there was one reading. */
  readonly overSeconds: number;
  /** The shortest time between two readings; it grows with the number of frontends and the time that one takes. */
  readonly everySeconds: number;
  /** Of all, also of those that `services` has no room for. */
  readonly total: Pick<ServiceConnections, "connections" | "perSecond">;
  /** The busiest, in that order. */
  readonly services: readonly ServiceConnections[];
}
