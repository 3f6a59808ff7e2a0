/**
 * The report of `signpost top`: new connections of each Service.
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
  /** The Service's own port number, also for a node port. */
  readonly port: number;
  readonly protocol: Protocol;
  readonly frontend: FrontendType;
  /** Connections since the daemon began to count. Never falls. */
  readonly connections: number;
  /** The rate between the last two readings. */
  readonly perSecond: number;
}

/** Everything that `signpost top -o json` prints. */
export interface ConnectionsReport {
  readonly connectionsVersion: typeof CONNECTIONS_VERSION;
  readonly node: string;
  /** The reason why nothing is counted; `""` if counting is on. */
  readonly off: string;
  /** The time of the last reading, RFC 3339; `""` if there was none yet. */
  readonly at: string;
  /** The seconds that `perSecond` covers; 0 after one reading only. */
  readonly overSeconds: number;
  /**
   * The shortest time between two readings. It grows with the number of frontends and the duration
   * of a reading.
   */
  readonly everySeconds: number;
  /** The sum over all Services, also over those that `services` has no room for. */
  readonly total: Pick<ServiceConnections, "connections" | "perSecond">;
  /** The busiest Services, busiest first. */
  readonly services: readonly ServiceConnections[];
}
