/** Declares the answers of `signpost explain`. Later releases only add fields. `docs/output.md` describes them. */
import type { KernelEntry, StickyClient } from "../backend/backend.ts";
import type { PacketDestination, Sender } from "../config/command.ts";
import type { Endpoint, Protocol, TrafficPolicy } from "../model/cluster/objects.ts";
import type { Scheduler } from "../model/cluster/scheduler.ts";
import type { Mode } from "../model/configuration.ts";
import type { DesiredServicePort, Destination, FrontendType } from "../model/kernel/desired.ts";
import type { ProbeTarget } from "../model/ports/ports.ts";
import type { HistoryEntry, ObjectsOrigin, ServiceStatus } from "../model/status.ts";
import type { SliceFacts } from "../source/objects/inspect.ts";
import type { TopologyMode } from "../policy/endpoints.ts";

/** The version of the report. It grows when a field is removed or changes its meaning. */
export const EXPLAIN_VERSION = 1;

export interface ExplainFinding {
  /** `error`: it stops traffic. */
  readonly severity: "error" | "warning" | "note";
  /** A word that stays the same from release to release. */
  readonly code: string;
  readonly message: string;
  /** The remedy; `""`: there is none, or it depends. */
  readonly hint: string;
}

/** Says if this node's address replaces the source address, and why. */
export interface Masquerade {
  readonly applies: boolean;
  readonly code:
    | "masquerade-all"
    | "not-a-local-pod"
    | "external-cluster-policy"
    | "node-to-external"
    | "hairpin"
    | "none";
  readonly reason: string;
}

/** The outcome for a packet, by the objects alone. */
export interface Outcome {
  readonly verdict: "dnat" | "reject" | "drop" | "none";
  readonly code:
    | "delivered"
    | "no-endpoints"
    | "no-local-endpoints"
    | "source-range"
    | "undefined-port"
    | "unallocated-address"
    | "localhost-guarded"
    | "localhost-listener"
    | "no-localhost-listener"
    | "not-on-localhost"
    | "not-a-service";
  readonly reason: string;
  /** The rule or element that decides; `null`: there is none. */
  readonly rule: string | null;
  readonly servicePort: string | null;
  readonly frontend: FrontendType | null;
  /** The policy whose endpoints are used, not always the one that is configured. */
  readonly policy: TrafficPolicy | null;
  readonly endpoints: readonly (Pick<Destination, "address" | "port"> & {
    readonly probability: number;
    readonly masqueraded: boolean;
  })[];
  readonly affinitySeconds: number;
  /** `null`: at random. */
  readonly scheduler: Scheduler | null;
  readonly masquerade: Masquerade | null;
  readonly acceleratedAfter?: number;
  /** The conditions of the verdict if the packet's source is not known. */
  readonly conditions: readonly string[];
}

/** The verdicts on packets that signpost handles, in the passive voice. */
export const PASSIVE = { dnat: "delivered", reject: "rejected", drop: "dropped" } as const;

/** The outcomes of connections to one address of a service port, by sender. */
export interface FrontendReport {
  readonly type: FrontendType;
  /** `null`: all of the node's addresses that take node ports. */
  readonly address: string | null;
  /** The addresses that it answers on. */
  readonly addresses: readonly string[];
  readonly port: number;
  readonly policy: TrafficPolicy;
  /** The Service that has the address instead, or a description of another holder. */
  readonly heldBy: string | null;
  readonly outcomes: readonly (Outcome & { readonly sender: Sender })[];
}

export interface EndpointReport extends Omit<Endpoint, "nodeName"> {
  readonly node: string | null;
  readonly slice: string;
  /** `null`: the slice has no such port. */
  readonly port: number | null;
  readonly usedFor: readonly TrafficPolicy[];
  readonly code:
    | "used"
    | "last-resort"
    | "not-ready"
    | "terminating"
    | "other-zone"
    | "other-node"
    | "not-local"
    | "wrong-port"
    | "duplicate"
    | "not-written"
    | "held";
  readonly reason: string;
}

/** A chain of another program that drops packets, or may do so. */
export interface ForeignDrop {
  readonly table: string;
  readonly chain: string;
  /** The senders in the question whose packets this or another chain drops. */
  readonly senders: readonly Sender[];
  /** True if its rules may accept these packets. */
  readonly mayPass?: true;
}

/** One port of the Service in one family. */
export interface PortReport extends
  Pick<
    DesiredServicePort,
    "name" | "family" | "protocol" | "port" | "affinitySeconds" | "sourceRanges"
  > {
  readonly targetPort: string;
  readonly topology: TopologyMode;
  readonly scheduler: Scheduler | null;
  readonly frontends: readonly FrontendReport[];
  readonly endpoints: readonly EndpointReport[];
  /** The chain that drops connections to the endpoints. */
  readonly droppedBy: ForeignDrop | null;
}

export interface TrackedConnection {
  readonly protocol: Protocol;
  readonly source: string;
  readonly destination: string;
  readonly endpoint: string;
  readonly flags: readonly string[];
  readonly isCurrent: boolean;
}

/** The kernel's entries beside the desired ones. */
export interface KernelReport {
  /** `unread`: without the permission, or without nft. */
  readonly state: "same" | "different" | "empty" | "unread";
  readonly reason: string;
  readonly entries: readonly KernelEntry[];
}

/** Lists the rules that matched a real packet, and its end. */
export interface TraceReport {
  /** `lost`: the rules did not see the packet. */
  readonly verdict: Outcome["verdict"] | "lost";
  /** The `address:port` with which the packet left; `""`: it did not leave, or that was not seen. */
  readonly destination: string;
  readonly masqueraded: boolean;
  /** True if, by the chains that it passed, it left this node or reached a program here. */
  readonly hasLeft: boolean;
  /** True if the rules should do this. */
  readonly agrees: boolean;
  readonly steps: readonly {
    /** `inet signpost`. */
    readonly table: string;
    readonly chain: string;
    /** `rule`: one that matched; `policy`: the end of a base chain. */
    readonly type: "rule" | "policy" | "verdict";
    readonly text: string;
    /** `accept`, `drop`, `goto pick-endpoints4-tcp-2` and such. */
    readonly verdict: string;
  }[];
}

/** One connection that this node tried, with its result. */
export interface ProbedConnection extends ProbeTarget {
  readonly type: "endpoint" | FrontendType;
  readonly servicePort: string;
  /** True if the rules accept connections of this node to it or, for an endpoint, if it is used. */
  readonly isExpected: boolean;
  readonly result: "open" | "refused" | "no-answer" | "no-route" | "failed";
  /** Describes the result: `open 0.4 ms`, `failed: …`. */
  readonly text: string;
}

export interface ProbeReport {
  readonly connections: readonly ProbedConnection[];
  /** Protocols of the Service that cannot be probed. */
  readonly notProbed: readonly Protocol[];
  /** The number of addresses beyond the limit. */
  readonly omitted: number;
}

/** The tracked connections that were sent to one endpoint. */
export interface EndpointTraffic extends Pick<Destination, "address" | "port"> {
  readonly protocol: Protocol;
  /** False if new connections do not go there: it terminates, is not ready or is gone. */
  readonly isCurrent: boolean;
  readonly open: number;
  readonly unanswered: number;
}

export interface TrafficReport {
  /** The reason why the connections were not counted; `""`: they were counted. */
  readonly reason: string;
  /** The seconds for which the kernel tracks an attempt over TCP. */
  readonly overSeconds: number;
  readonly endpoints: readonly EndpointTraffic[];
}

/** The kernel's part of a report before it is read. */
export const NOT_READ: KernelReport = { state: "unread", reason: "", entries: [] };

export interface Report {
  readonly explainVersion: typeof EXPLAIN_VERSION;
  readonly mode: Mode;
  readonly node: string;
  readonly summary: string;
  readonly findings: readonly ExplainFinding[];
  readonly kernel: KernelReport;
  /** `null`: not asked for. */
  readonly connections: readonly TrackedConnection[] | null;
  readonly objects: ObjectsOrigin;
}

export interface ServiceReport extends Report {
  readonly kind: "service";
  readonly service: string;
  readonly type: string;
  readonly selector: string;
  readonly zone: string;
  readonly verdict: "delivered" | "broken" | "not-proxied" | "not-found";
  readonly ports: readonly PortReport[];
  /** The slices without effect on the rules. */
  readonly unusedSlices: readonly SliceFacts[];
  readonly stickyClients: readonly StickyClient[];
  /** `null`: not read yet. */
  readonly traffic: TrafficReport | null;
  /** `null`: not asked for. */
  readonly probe: ProbeReport | null;
  /** `null`: no daemon answers. */
  readonly status: ServiceStatus | null;
  /** The last changes that the daemon wrote, the newest first. */
  readonly history: readonly HistoryEntry[];
}

export interface PacketReport extends Report {
  readonly kind: "packet";
  readonly packet: PacketDestination & {
    readonly source: string | null;
    readonly sender: Sender;
    readonly senderReason: string;
  };
  /** Follows from the objects alone; `summary` has the kernel and other programs' rules in it. */
  readonly outcome: Outcome;
  readonly droppedBy: ForeignDrop | null;
  readonly stickyEndpoint: Pick<Destination, "address" | "port"> | null;
  /** `null`: not asked for. */
  readonly trace: TraceReport | null;
}
