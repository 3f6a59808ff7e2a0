/**
 * The answers of `signpost explain`, as data: what `-o json` prints. Fields are only ever added. `docs/output.md`
 * describes them.
 */
import type { KernelEntry, StickyClient } from "../backend/backend.ts";
import type { Sender } from "../config/command.ts";
import type { Protocol, TrafficPolicy } from "../model/cluster/objects.ts";
import type { Scheduler } from "../model/cluster/scheduler.ts";
import type { Mode } from "../model/configuration.ts";
import type { FrontendType } from "../model/kernel/desired.ts";
import type { ObjectsOrigin, ServiceStatus } from "../model/status.ts";
import type { Family } from "../model/values/address.ts";
import type { TopologyMode } from "../policy/endpoints.ts";

/** The version of the format; it changes only if a field goes or changes its meaning. */
export const EXPLAIN_VERSION = 1;

export interface Finding {
  /** `error`: traffic is not delivered because of it. */
  readonly severity: "error" | "warning" | "note";
  /** A word that stays the same from release to release. */
  readonly code: string;
  readonly message: string;
  /** The remedy; `""`: there is none, or it depends. */
  readonly hint: string;
}

/** True if the source address is replaced by this node's, and why. */
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
    | "localhost-listener"
    | "no-localhost-listener"
    | "not-on-localhost"
    | "not-a-service";
  readonly reason: string;
  /** The rule or element that decides; `null`: none does. */
  readonly rule: string | null;
  readonly servicePort: string | null;
  readonly frontend: FrontendType | null;
  /** The policy whose endpoints are used, not always the one that is configured. */
  readonly policy: TrafficPolicy | null;
  readonly endpoints: readonly {
    readonly address: string;
    readonly port: number;
    readonly probability: number;
    readonly masqueraded: boolean;
  }[];
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
  readonly port: number;
  readonly policy: TrafficPolicy;
  /** The Service that has the address instead, or a phrase. */
  readonly heldBy: string | null;
  /** Empty if another Service has it. */
  readonly outcomes: readonly (Outcome & { readonly sender: Sender })[];
}

export interface EndpointReport {
  readonly address: string;
  /** `null`: the slice has no such port. */
  readonly port: number | null;
  readonly node: string | null;
  readonly slice: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly zoneHints: readonly string[];
  readonly nodeHints: readonly string[];
  /** The policies whose traffic it takes; empty: it is not used. */
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
    | "no-policy";
  readonly reason: string;
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
  readonly targetPort: string;
  readonly topology: TopologyMode;
  readonly affinitySeconds: number;
  readonly scheduler: Scheduler | null;
  readonly sourceRanges: readonly string[];
  readonly frontends: readonly FrontendReport[];
  readonly endpoints: readonly EndpointReport[];
  /** Drops connections from outside to the endpoints. */
  readonly droppedBy: ForeignDrop | null;
}

/** A slice that makes no rules. */
export interface UnusedSlice {
  /** `namespace/name`. */
  readonly slice: string;
  readonly endpoints: number;
  readonly reason: string;
}

export interface TrackedConnection {
  readonly protocol: Protocol;
  readonly source: string;
  /** As the client sent it. */
  readonly destination: string;
  readonly endpoint: string;
  readonly flags: readonly string[];
  /** True if its Service uses the endpoint now. */
  readonly isCurrent: boolean;
}

/** The kernel's entries beside the desired ones. */
export interface KernelReport {
  /** `unread`: without the permission, or without nft. */
  readonly state: "same" | "different" | "empty" | "unread";
  readonly reason: string;
  readonly entries: readonly KernelEntry[];
}

/** One step of a packet through the kernel's chains. */
interface TraceStep {
  /** `inet signpost`. */
  readonly table: string;
  readonly chain: string;
  /** `rule`: one that matched; `policy`: the end of a base chain. */
  readonly type: "rule" | "policy" | "verdict";
  readonly text: string;
  /** `accept`, `drop`, `goto pick-endpoints4-tcp-2` and such. */
  readonly verdict: string;
}

export interface TraceReport {
  /** `lost`: the packet was not seen by the rules. */
  readonly verdict: Outcome["verdict"] | "lost";
  /** `address:port` that the packet left with; `""`: it did not, or that was not seen. */
  readonly destination: string;
  readonly masqueraded: boolean;
  /** True if it went out of this node, or to a program here, as far as the chains tell. */
  readonly hasLeft: boolean;
  /** True if it is what the rules should do. */
  readonly agrees: boolean;
  readonly steps: readonly TraceStep[];
}

interface Report {
  readonly explainVersion: typeof EXPLAIN_VERSION;
  readonly mode: Mode;
  readonly node: string;
  readonly summary: string;
  /** Errors first. */
  readonly findings: readonly Finding[];
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
  readonly verdict: "delivered" | "broken" | "not-proxied";
  readonly ports: readonly PortReport[];
  readonly unusedSlices: readonly UnusedSlice[];
  readonly stickyClients: readonly StickyClient[];
  /** `null`: no daemon answers. */
  readonly status: ServiceStatus | null;
}

export interface PacketReport extends Report {
  readonly kind: "packet";
  readonly packet: {
    readonly source: string | null;
    readonly sender: Sender;
    readonly senderReason: string;
    readonly address: string;
    readonly port: number;
    readonly protocol: Protocol;
  };
  /** Follows from the objects alone; `summary` has the kernel and other programs' rules in it. */
  readonly outcome: Outcome;
  readonly droppedBy: ForeignDrop | null;
  readonly stickyEndpoint: { readonly address: string; readonly port: number } | null;
  /** `null`: not asked for. */
  readonly trace: TraceReport | null;
}
