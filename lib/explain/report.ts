/**
 * The answers of `signpost explain`, as data: what `-o json` prints. Fields are only ever added; `docs/output.md`
 * describes them.
 */
import type { Scheduler } from "../model/cluster/scheduler.ts";
import type { Mode } from "../model/configuration.ts";
import type { Sender } from "../config/command.ts";
import type { Family } from "../model/values/address.ts";
import type { Protocol, TrafficPolicy } from "../model/cluster/objects.ts";
import type { EndpointReport } from "./endpoints.ts";
import type { FrontendType } from "../model/kernel/desired.ts";
import type { KernelEntry, StickyClient } from "../backend/backend.ts";
import type { ObjectsOrigin, ServiceStatus } from "../model/status.ts";
import type { Outcome } from "./outcome.ts";
import type { TraceReport } from "./trace.ts";

/** The version of the format; it changes only where a field goes or changes its meaning. */
export const EXPLAIN_VERSION = 1;

/** Something that a person who looks for a cause should know. */
export interface Finding {
  /** `error`: traffic is not delivered because of it. */
  readonly severity: "error" | "warning" | "note";
  /** A word that stays the same from release to release. */
  readonly code: string;
  readonly message: string;
  /** The remedy; `""`: none, or it depends. */
  readonly hint: string;
}

/** The outcomes of connections to one address of a service port, by sender. */
export interface FrontendReport {
  readonly type: FrontendType;
  /** `null`: all of the node's addresses that take node ports. */
  readonly address: string | null;
  readonly port: number;
  readonly policy: TrafficPolicy;
  /** `namespace/name` of the Service that has it, if that is another Service. */
  readonly heldBy: string | null;
  /** Empty if another Service has it. */
  readonly outcomes: readonly (Outcome & { readonly sender: Sender })[];
}

/** A chain of another program that drops packets. */
export interface ForeignDrop {
  /** Such as `inet hostfw`. */
  readonly table: string;
  readonly chain: string;
}

/** One port of the Service in one family. */
export interface PortReport {
  /** `namespace/name:port`. */
  readonly name: string;
  readonly family: Family;
  readonly protocol: Protocol;
  readonly port: number;
  /** As the Service says; `""` where it is not known. */
  readonly targetPort: string;
  /** The hints that decide on the Cluster policy's endpoints; `""`: none hold here. */
  readonly topology: "" | "PreferSameNode" | "PreferSameZone";
  readonly affinitySeconds: number;
  /** The spread of new connections; `null`: at random. */
  readonly scheduler: Scheduler | null;
  readonly sourceRanges: readonly string[];
  readonly frontends: readonly FrontendReport[];
  readonly endpoints: readonly EndpointReport[];
  /** The chain that drops connections from outside to the endpoints; `null`: none is known. */
  readonly droppedBy: ForeignDrop | null;
}

/** A slice that makes no rules. */
export interface UnusedSlice {
  /** `namespace/name`. */
  readonly slice: string;
  readonly endpoints: number;
  readonly reason: string;
}

/** A connection that the kernel tracks. */
export interface TrackedConnection {
  readonly protocol: Protocol;
  readonly source: string;
  /** As the client sent it. */
  readonly destination: string;
  /** The endpoint that it was sent to. */
  readonly endpoint: string;
  /** `TIME_WAIT`, `UNREPLIED` and such. */
  readonly flags: readonly string[];
  /** True if its Service uses the endpoint now. */
  readonly isCurrent: boolean;
}

/** The kernel's entries beside the desired ones. */
export interface KernelReport {
  /** `unread`: without the permission, or without nft. */
  readonly state: "same" | "different" | "empty" | "unread";
  /** The reason why it was not read; `""`: it was. */
  readonly reason: string;
  /** Entries that differ first. */
  readonly entries: readonly KernelEntry[];
}

/** The answer about a Service. */
export interface ServiceReport {
  readonly explainVersion: typeof EXPLAIN_VERSION;
  readonly kind: "service";
  /** `namespace/name`. */
  readonly service: string;
  /** ClusterIP, NodePort, LoadBalancer and so on; `""` where there is no such Service. */
  readonly type: string;
  readonly selector: string;
  readonly mode: Mode;
  readonly node: string;
  /** `""`: not known. */
  readonly zone: string;
  /** `broken`: a finding is an error. */
  readonly verdict: "delivered" | "broken" | "not-proxied";
  /** One sentence. */
  readonly summary: string;
  /** Errors first. */
  readonly findings: readonly Finding[];
  readonly ports: readonly PortReport[];
  readonly unusedSlices: readonly UnusedSlice[];
  readonly kernel: KernelReport;
  readonly stickyClients: readonly StickyClient[];
  /** `null`: not asked for. */
  readonly connections: readonly TrackedConnection[] | null;
  readonly objects: ObjectsOrigin;
  /** The Service's status in the daemon; `null`: none answers. */
  readonly status: ServiceStatus | null;
}

/** The answer about a packet. */
export interface PacketReport {
  readonly explainVersion: typeof EXPLAIN_VERSION;
  readonly kind: "packet";
  readonly mode: Mode;
  readonly node: string;
  readonly packet: {
    readonly source: string | null;
    readonly sender: Sender;
    /** The way in which the sender is known. */
    readonly senderReason: string;
    readonly address: string;
    readonly port: number;
    readonly protocol: Protocol;
  };
  /** Says in a few words how the node handles the packet, or should if the kernel differs. */
  readonly summary: string;
  /** Follows from the objects alone; `summary` has the kernel and other programs' rules in it. */
  readonly outcome: Outcome;
  /** The chain of another program that drops the packet; `null`: none is known. */
  readonly droppedBy: ForeignDrop | null;
  /** The endpoint on which session affinity keeps this source. */
  readonly stickyEndpoint: { readonly address: string; readonly port: number } | null;
  readonly findings: readonly Finding[];
  readonly kernel: KernelReport;
  readonly connections: readonly TrackedConnection[] | null;
  /** `null`: not asked for. */
  readonly trace: TraceReport | null;
  readonly objects: ObjectsOrigin;
}
