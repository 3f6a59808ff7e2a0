/** Declares counts of new connections: the kernel's counts, and the report of `signpost top`. */
import type { Protocol } from "./cluster/objects.ts";
import type { FrontendType, NoEndpointsReason } from "./kernel/desired.ts";

/** The reasons of rules that reject or drop connections to a Service: codes of `explain`. */
export type RejectReason = NoEndpointsReason | "source-range";

/** Describes in a line how the rules refuse connections, and why. */
export const REJECTIONS: Readonly<Record<RejectReason, string>> = {
  "no-endpoints": "rejected: no endpoints",
  "no-local-endpoints": "dropped: no endpoint on this node",
  "source-range": "dropped: source outside of the source ranges",
};

/** The count of one frontend since its element or rule was last written. */
export interface FrontendCount {
  /** `keyInFamily` of its `frontendKey`. */
  readonly frontend: string;
  /** `namespace/name` of the Service that the frontend was written for. */
  readonly service: string;
  readonly connections: number;
  /** Absent: they were sent to an endpoint. */
  readonly reason?: RejectReason;
}

export interface ConnectionCounters {
  /** True if this process wrote all frontends. Until then their counts were 0. */
  readonly areOurs: boolean;
  /** Reads the counts of all frontends in one listing. @throws {ApplyError} if it fails */
  read(): Promise<Iterable<FrontendCount>>;
}

/** The version of the report. It grows when a field is removed or changes its meaning. */
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
  readonly perSecond: number;
  /** The reason why the rules reject or drop them. A client's new tries count too. Absent: they were sent to an endpoint. */
  readonly reason?: RejectReason;
}

type Load = Pick<ServiceConnections, "connections" | "perSecond">;

/** Everything that `signpost top -o json` prints. */
export interface ConnectionsReport {
  readonly connectionsVersion: typeof CONNECTIONS_VERSION;
  readonly node: string;
  /** The reason why nothing is counted; `""` if counting is on. */
  readonly off: string;
  /** The time of the last reading, RFC 3339; `""` before the first reading. */
  readonly at: string;
  /** The seconds that `perSecond` covers; 0 after one reading only. */
  readonly overSeconds: number;
  /** The shortest time between two readings. It grows with the duration of a reading. */
  readonly everySeconds: number;
  /** The sum over all Services, also over Services that `services` leaves out. */
  readonly total: Load;
  readonly services: readonly ServiceConnections[];
  /** The sum of connections that the rules reject or drop. */
  readonly totalRejected: Load;
  readonly rejected: readonly ServiceConnections[];
}
