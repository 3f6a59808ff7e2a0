/** Declares the status of a running daemon, and the findings on its node. */
import type { Acceleration, Mode } from "./configuration.ts";
import type { Kind, Refusal } from "./cluster/objects.ts";
import type { ServiceConnections } from "./connections.ts";
import type { Feature } from "./kernel/traits.ts";
import type { Progress } from "./kernel/dataplane.ts";

/** `error`: packets are lost, or rules cannot be written. `warning`: that may happen. `info`: worth knowing. */
export type Severity = "error" | "warning" | "info";

/** The order of findings. `explain` says "note" where node findings have "info". */
const RANK = { error: 0, warning: 1, info: 2, note: 2 } as const;

/** Compares findings: errors come first, then warnings. */
export function bySeverity(
  a: { readonly severity: keyof typeof RANK },
  b: { readonly severity: keyof typeof RANK },
): number {
  return RANK[a.severity] - RANK[b.severity];
}

export interface Finding {
  /** The kind, a row of the catalog. */
  readonly id: string;
  readonly severity: Severity;
  /** Says what is wrong, with the values that show it. */
  readonly what: string;
  /** Names the chain, table, address, setting or object. */
  readonly where: string;
  /** Says what to do, with the command line if possible. */
  readonly remedy: string;
  /** The affected Services, as `namespace/name`; empty if the whole node is affected. */
  readonly services: readonly string[];
  /** The packets that a firewall drops, as sender and hook: `external forward`, `pod input`. Absent: none. */
  readonly drops?: readonly string[];
}

export interface LocalhostSummary {
  readonly listeners: number;
  readonly connections: number;
  /** Connections that were closed since the start because too many were open. */
  readonly refused: number;
}

/** The version of the local socket's answers. It grows when a field is removed or changes its meaning. */
export const STATUS_VERSION = 1;

/** The state of one watch. */
export interface WatchSummary {
  readonly kind: Kind;
  readonly state: string;
  /** `""` before the first list. */
  readonly resourceVersion: string;
  /** The time of the last event or bookmark, RFC 3339; `""` before the first. */
  readonly lastEvent: string;
  /** The number of delivered complete lists, the first one included. */
  readonly lists: number;
  /** The last failure in one line; `""` without a failure. */
  readonly lastError: string;
  /** The time of the first failure since the last event, RFC 3339; `""` without a failure. */
  readonly failingSince: string;
}

export interface SyncSummary {
  readonly kind: "full" | "partial";
  /** RFC 3339. */
  readonly at: string;
  readonly seconds: number;
  readonly operations: number;
  readonly bytes: number;
}

/** Leftovers of kube-proxy's ipvs mode that signpost will remove later. */
export interface TakeOverSummary {
  readonly from: "ipvs";
  readonly connections: number;
  /** The deadline of these connections, RFC 3339. */
  readonly until: string;
  /** The reason, besides connections, why nothing is removed yet; `""` without such a reason. */
  readonly obstacle: string;
}

export interface AccelerationSummary extends Pick<Acceleration, "packets" | "interfaces"> {
  /** The connections of all programs on the fast path at the last count; `null` if they cannot be counted. */
  readonly connections: number | null;
}

export interface WrittenBy {
  readonly number: number;
  readonly kind: "full" | "partial";
}

export interface ServiceStatus {
  /** `namespace/name`. */
  readonly service: string;
  /** `applied`: in the kernel; `pending`: waits for a sync; `rejected`: cannot be used; `absent`: without rules. */
  readonly state: "applied" | "pending" | "rejected" | "absent";
  /** RFC 3339: the time since which the kernel has these rules; `""` without rules. */
  readonly since: string;
  /** The sync that wrote these rules; `null` without rules. */
  readonly sync: WrittenBy | null;
  /** The reason why it is pending or rejected; `""` if it is neither. */
  readonly reason: string;
  /** The connections that its rules rejected or dropped. */
  readonly rejected?: readonly ServiceConnections[];
}

/** A change of a Service that is in the kernel. */
export interface HistoryEntry {
  /** RFC 3339: the time when the kernel had the change. */
  readonly at: string;
  /** `namespace/name`. */
  readonly service: string;
  readonly what: string;
  /** The time from the first event to the kernel; `null` without an event of the Service. */
  readonly milliseconds: number | null;
}

export interface ObjectsOrigin {
  readonly from: "daemon" | "api" | "manifests" | "state-file";
  /** RFC 3339: the time at which the objects had this state. */
  readonly asOf: string;
}

/** Milliseconds after which commands print the age of objects. */
const OLD = 5_000;

/** Returns true if the objects are current. @param now milliseconds since the epoch */
export function isCurrent({ asOf }: ObjectsOrigin, now: number): boolean {
  return now - Date.parse(asOf) < OLD;
}

/** An address and port, or a node port, that a Service claims and does not get. */
export interface Conflict {
  /** The claim, as `address . protocol . port` or `node port protocol . port`. */
  readonly claim: string;
  /** `namespace/name` of the Service that holds it, or another holder in words. */
  readonly holder: string;
  readonly loser: string;
  /** The reason why the holder comes first, as the end of a sentence. */
  readonly because: string;
  /** The number of conflicts that the entry counts and does not list; absent in all others. */
  readonly more?: number;
}

/** Everything that `signpost status -o json` prints. */
export interface Status {
  readonly statusVersion: typeof STATUS_VERSION;
  readonly version: string;
  readonly commit: string;
  readonly node: string;
  readonly mode: Mode;
  readonly kernel: string;
  /** The version of the program that writes the rules; `""` if unknown. */
  readonly nft: string;
  readonly missingFamilies: readonly {
    readonly family: "IPv4" | "IPv6";
    readonly reason: string;
  }[];
  /** A Go duration, or `adaptive`: by the duration of recent syncs. */
  readonly minSyncPeriod: string;
  /** The shortest time from the end of the last sync to the next sync. */
  readonly syncPauseSeconds: number;
  /** RFC 3339. */
  readonly started: string;
  readonly healthy: boolean;
  readonly nodeEligible: boolean;
  /** True if the rules come from the state file, because the watches have not delivered yet. */
  readonly stale: boolean;
  readonly findings: readonly Finding[];
  /** The progress of a large table in portions; absent when it is written. */
  readonly portions?: Progress;
  readonly services: number;
  readonly servicePorts: number;
  /** Services without an endpoint in use. */
  readonly servicesWithoutEndpoints: number;
  readonly endpointSlices: number;
  readonly endpoints: number;
  readonly driftRepairs: number;
  readonly localhostNodePorts?: LocalhostSummary;
  /** Absent without a fast path. */
  readonly acceleration?: AccelerationSummary;
  /** Absent unless a take-over is in progress. */
  readonly takeOver?: TakeOverSummary;
  /** `null` without a state file. */
  readonly snapshotAgeSeconds: number | null;
  /** Features that nft or the kernel refuses, and how; absent without any. */
  readonly refusedFeatures?: readonly { readonly feature: Feature; readonly reason: string }[];
  readonly watches: readonly WatchSummary[];
  readonly syncs: readonly SyncSummary[];
  /** The first refused objects, and a last entry that counts the rest. */
  readonly refused: readonly Refusal[];
  /** The numbers of all refused objects; absent without any. */
  readonly refusedByKind?: Readonly<Record<string, number>>;
  /** The first conflicts of each loser, and a last entry that counts the rest. */
  readonly conflicts: readonly Conflict[];
}

export function countByKind(
  refused: readonly Pick<Refusal, "kind">[],
): Readonly<Record<string, number>> {
  const kinds = Map.groupBy(refused, ({ kind }) => kind).entries();
  return Object.fromEntries(kinds.map(([kind, { length }]) => [kind, length]));
}
