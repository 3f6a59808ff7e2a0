/** Defines the metrics that are read at each scrape. */
import { counterText } from "./registry.ts";
import { TIMES_AS_LONG } from "../../backend/connections.ts";
import type { BackendMetrics, Definition, ReadMetric, Sample } from "../../backend/metrics.ts";
import type { KnownGate } from "../../config/checks.ts";
import { CATALOG } from "../../findings/catalog.ts";
import type { FamilyCounts, LocalhostListeners } from "../../localhost/listeners.ts";
import type { ServiceConnections } from "../../model/connections.ts";
import { type Kind, KINDS, type Refusal } from "../../model/cluster/objects.ts";
import type { Finding } from "../../model/status.ts";
import { FAMILIES, type Family, FAMILY_NAMES } from "../../model/values/address.ts";
import type { Desired } from "../../policy/state.ts";
import type { WatchStatus } from "../../source/api/reflector.ts";
import type { SyncProgress } from "../../sync/reports.ts";
import { KUBERNETES_VERSION } from "../../model/version.ts";

/** Reads the resources that the process uses. */
export interface ProcessUsage {
  /** Bytes. */
  residentMemory(): number;
  /** Bytes of V8's heap: taken, filled with objects, and kept outside for them. */
  heap(): { readonly total: number; readonly used: number; readonly external: number };
  /** Seconds of processor time, user and system. */
  cpu(): number;
  /** The start of the process, seconds since the epoch. */
  readonly started: number;
  /** System and machine, for example `linux/amd64`. */
  readonly platform: string;
}

/** The daemon's counts of its work. */
export interface Observed {
  /** All changes, and those that the kernel does not have yet. */
  readonly changes: Readonly<
    Record<"EndpointSlice" | "Service", { readonly total: number; readonly pending: number }>
  >;
  readonly watches: ReadonlyMap<Kind, WatchStatus>;
  readonly driftRepairs: number;
}

export interface MetricsOptions {
  readonly backend: BackendMetrics;
  readonly families: readonly Family[];
  readonly observed: () => Observed;
  readonly sync: () => SyncProgress;
  readonly desired: Pick<Desired, "noLocal" | "conflictCount">;
  readonly version: string;
  readonly commit: string;
  readonly featureGates: readonly KnownGate[];
  readonly process: ProcessUsage;
  /** Seconds since the state file was written; `undefined`: there is none. */
  readonly snapshotAge: () => number | undefined;
  readonly isStale: () => boolean;
  readonly findings: () => readonly Finding[];
  readonly refused: () => readonly Pick<Refusal, "kind">[];
  /** The connections of each Service, in batches with pauses between; `undefined`: they are not counted. */
  readonly connections?: (() => AsyncIterable<readonly ServiceConnections[]>) | undefined;
  /** `undefined`: this mode has no listeners on loopback. */
  readonly localhost?: Pick<LocalhostListeners, "listeners" | "counts" | "connections"> | undefined;
}

const SYNC = "kubeproxy_sync_proxy_rules";
const LOCALHOST = "kubeproxy_nftables_localhost_nodeport";

const CONNECTIONS = [
  "signpost_service_connections_total",
  "New connections of a service port by kind of frontend, from the first one on. Read from the kernel at " +
  `most every second, and every ${TIMES_AS_LONG} times the duration of a reading`,
] as const;

/** Returns the text of the connection counters, the metric with most values. */
export function connectionsText(
  batches: AsyncIterable<readonly ServiceConnections[]>,
): Promise<string> {
  return counterText(CONNECTIONS, toSamples(batches));
}

async function* toSamples(
  batches: AsyncIterable<readonly ServiceConnections[]>,
): AsyncGenerator<readonly Sample[]> {
  for await (const batch of batches) {
    yield batch.map(({ connections: value, perSecond: _, ...labels }) => ({
      labels: { ...labels, port: `${labels.port}` },
      value,
    }));
  }
}

function gauge(definition: Definition, read: ReadMetric["read"]): ReadMetric {
  return { type: "gauge", definition, read };
}

function counter(definition: Definition, read: ReadMetric["read"]): ReadMetric {
  return { type: "counter", definition, read };
}

export function readings(options: MetricsOptions): ReadMetric[] {
  return [
    ...options.backend.readings,
    ...syncReadings(options),
    ...watchReadings(options),
    ...processReadings(options),
    ...buildReadings(options),
    ...localhostReadings(options),
  ];
}

function syncReadings({ families, observed, sync, desired }: MetricsOptions): ReadMetric[] {
  const seconds = (time: number) => time === 0 ? [] : byFamily(families, () => time / 1000);
  const changes = (kind: keyof Observed["changes"], word: string) => [
    counter(
      [`${SYNC}_${word}_changes_total`, `Changes of ${word}s seen`],
      () => observed().changes[kind].total,
    ),
    gauge(
      [`${SYNC}_${word}_changes_pending`, `Changes of ${word}s not yet in the kernel`],
      () => observed().changes[kind].pending,
    ),
  ];
  return [
    gauge(
      [`${SYNC}_last_queued_timestamp_seconds`, "When a sync was last asked for"],
      () => seconds(sync().queued),
    ),
    gauge(
      [`${SYNC}_last_timestamp_seconds`, "When a sync last ended well"],
      () => seconds(sync().synced),
    ),
    ...changes("EndpointSlice", "endpoint"),
    ...changes("Service", "service"),
    gauge(
      [
        `${SYNC}_no_local_endpoints_total`,
        "Service ports with a Local traffic policy and no local endpoint",
      ],
      () =>
        FAMILIES.flatMap((family) =>
          Object.entries(desired.noLocal[family]).map(([policy, value]) => ({
            labels: { ip_family: FAMILY_NAMES[family], traffic_policy: policy },
            value,
          }))
        ),
    ),
    counter(
      ["signpost_drift_repairs_total", "Repairs of rules that another program had changed"],
      () => observed().driftRepairs,
    ),
    gauge(
      ["signpost_vip_conflicts", "Virtual IPs and ports that more than one Service claims"],
      () => desired.conflictCount,
    ),
  ];
}

/** Reads one value for each family. */
function byFamily(families: readonly Family[], read: (family: Family) => number): Sample[] {
  return families.map((family) => ({
    labels: { ip_family: FAMILY_NAMES[family] },
    value: read(family),
  }));
}

function watchReadings({ observed }: MetricsOptions): ReadMetric[] {
  const byKind = (read: (watch: WatchStatus) => number | undefined) => () =>
    [...observed().watches].flatMap(([kind, watch]) => {
      const value = read(watch);
      return value === undefined ? [] : [{ labels: { kind }, value }];
    });
  return [
    gauge(
      ["signpost_watch_connected", "1 while the watch is running"],
      byKind(({ state }) => state === "watching" ? 1 : 0),
    ),
    gauge(
      [
        "signpost_watch_last_activity_timestamp_seconds",
        "When the watch last delivered anything",
      ],
      byKind(({ lastEvent }) => lastEvent === 0 ? undefined : lastEvent / 1000),
    ),
    counter(
      ["signpost_watch_relists_total", "How often a watch started over with a list"],
      byKind(({ lists }) => Math.max(0, lists - 1)),
    ),
  ];
}

function processReadings(options: MetricsOptions): ReadMetric[] {
  const { process, snapshotAge, isStale, findings, refused } = options;
  return [
    gauge(
      ["signpost_snapshot_age_seconds", "Seconds since the state file was written"],
      snapshotAge,
    ),
    gauge(
      ["signpost_state_stale", "1 while the rules are those of the state file"],
      () => isStale() ? 1 : 0,
    ),
    gauge(
      ["process_resident_memory_bytes", "Resident memory, in bytes"],
      () => process.residentMemory(),
    ),
    gauge(
      ["process_start_time_seconds", "When the process was started, seconds since the epoch"],
      () => process.started,
    ),
    gauge(["nodejs_heap_size_total_bytes", "V8's heap, in bytes"], () => process.heap().total),
    gauge(["nodejs_heap_size_used_bytes", "V8's heap in use, in bytes"], () => process.heap().used),
    gauge(
      [
        "nodejs_external_memory_bytes",
        "Memory that V8's objects hold outside of its heap, in bytes",
      ],
      () => process.heap().external,
    ),
    counter(
      ["process_cpu_seconds_total", "Processor time, user and system, in seconds"],
      () => process.cpu(),
    ),
    gauge(
      ["signpost_node_findings", "Findings on this node by kind, see docs/findings.md"],
      () => countFindings(findings()),
    ),
    gauge(
      ["signpost_objects_refused", "Objects that cannot be used at present"],
      () => countRefused(refused()),
    ),
  ];
}

/** Counts findings. Every kind has a value, so that an alert can tell "none" from "not known". */
function countFindings(findings: readonly Finding[]): Sample[] {
  const counts = Map.groupBy(findings, ({ id }) => id);
  return Object.entries(CATALOG).map(([id, { severity }]) => ({
    labels: { id, severity },
    value: counts.get(id)?.length ?? 0,
  }));
}

function countRefused(refused: ReturnType<MetricsOptions["refused"]>): Sample[] {
  const counts = Map.groupBy(refused, ({ kind }) => kind);
  return KINDS.map((kind) => ({ labels: { kind }, value: counts.get(kind)?.length ?? 0 }));
}

/** Tells the build. Alerts compare `git_version` over all components, so it begins with kube-proxy's version. */
function buildReadings({ version, commit, featureGates, process }: MetricsOptions): ReadMetric[] {
  const [major = "", minor = ""] = KUBERNETES_VERSION.split(".");
  const kubernetes = {
    major,
    minor,
    git_version: `v${KUBERNETES_VERSION}+signpost.${version}`,
    git_commit: commit,
    git_tree_state: "",
    build_date: "",
    go_version: "",
    compiler: "deno",
    platform: process.platform,
  };
  return [
    gauge(
      ["signpost_build_info", "Version and commit; always 1"],
      () => [{ labels: { version, commit }, value: 1 }],
    ),
    gauge([
      "kubernetes_build_info",
      "The kube-proxy whose behaviour this is, and what it is built with",
    ], () => [{ labels: kubernetes, value: 1 }]),
    gauge(
      ["kubernetes_feature_enabled", "1 if a feature gate is on"],
      () =>
        featureGates.map(({ name, stage, enabled }) => ({
          labels: { name, stage },
          value: enabled ? 1 : 0,
        })),
    ),
  ];
}

function localhostReadings({ families, localhost }: MetricsOptions): ReadMetric[] {
  if (!localhost) return [];
  const read = (of: (counts: FamilyCounts) => number) => () =>
    byFamily(families, (family) => of(localhost.counts[family]));
  return [
    gauge(
      [`${LOCALHOST}_listeners`, "Listeners on loopback that are open"],
      () => byFamily(families, (family) => localhost.listeners(family)),
    ),
    counter([
      `${LOCALHOST}_listener_creation_failures_total`,
      "Listeners on loopback that could not be opened",
    ], read(({ listenFailures }) => listenFailures)),
    gauge(
      ["signpost_localhost_nodeport_connections", "Connections through listeners on loopback"],
      () => localhost.connections,
    ),
    counter([
      "signpost_localhost_nodeport_connections_total",
      "Connections that reached an endpoint",
    ], read(({ connections }) => connections)),
    counter(
      [
        "signpost_localhost_nodeport_connection_failures_total",
        "Connections that were closed before they reached an endpoint",
      ],
      () =>
        families.flatMap((family) =>
          Object.entries(localhost.counts[family].failures).map(([reason, value]) => ({
            labels: { ip_family: FAMILY_NAMES[family], reason },
            value,
          }))
        ),
    ),
  ];
}
