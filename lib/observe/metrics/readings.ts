/** Defines the metrics that are read at each scrape. */
import { counterText, type Registry } from "./registry.ts";
import { MOST_FRONTENDS, TIMES_AS_LONG } from "../../backend/connections.ts";
import type { BackendMetrics, Sample } from "../../backend/metrics.ts";
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
import { grouped } from "../../model/values/text.ts";
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

export interface ChangeCounts {
  readonly total: number;
  /** Changes that the kernel does not have yet. */
  readonly pending: number;
}

/** The daemon's counts of its work. */
export interface Observed {
  readonly changes: Readonly<Record<"EndpointSlice" | "Service", ChangeCounts>>;
  readonly watches: ReadonlyMap<Kind, WatchStatus>;
  readonly driftRepairs: number;
}

export interface MetricsOptions {
  readonly backend: BackendMetrics;
  readonly families: readonly Family[];
  readonly observed: () => Observed;
  readonly sync: () => SyncProgress;
  readonly desired: () => Pick<Desired, "noLocal" | "conflictCount">;
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
  `most every 5 s, above ${
    grouped(MOST_FRONTENDS)
  } frontends every 0.25 ms for each of them, and for ${TIMES_AS_LONG.scrape} times as long as the last reading took`,
] as const;

export function defineReadings(make: Registry, options: MetricsOptions): void {
  for (const metric of options.backend.readings) make.reading(metric);
  defineSyncs(make, options);
  defineWatches(make, options);
  defineProcess(make, options);
  defineBuild(make, options);
  defineLocalhost(make, options);
}

function defineSyncs(make: Registry, options: MetricsOptions): void {
  const { families, observed, sync, desired } = options;
  const byFamily = (milliseconds: number) =>
    milliseconds === 0 ? [] : samplesOf(families, () => milliseconds / 1000);
  make.reading({
    type: "gauge",
    definition: [`${SYNC}_last_queued_timestamp_seconds`, "When a sync was last asked for"],
    read: () => byFamily(sync().queued),
  });
  make.reading({
    type: "gauge",
    definition: [`${SYNC}_last_timestamp_seconds`, "When a sync last ended well"],
    read: () => byFamily(sync().synced),
  });
  for (const [kind, word] of [["EndpointSlice", "endpoint"], ["Service", "service"]] as const) {
    make.reading({
      type: "counter",
      definition: [`${SYNC}_${word}_changes_total`, `Changes of ${word}s seen`],
      read: () => [{ labels: {}, value: observed().changes[kind].total }],
    });
    make.readGauge(
      [`${SYNC}_${word}_changes_pending`, `Changes of ${word}s not yet in the kernel`],
      () => observed().changes[kind].pending,
    );
  }
  make.reading({
    type: "gauge",
    definition: [
      `${SYNC}_no_local_endpoints_total`,
      "Service ports with a Local traffic policy and no local endpoint",
    ],
    read: () =>
      FAMILIES.flatMap((family) =>
        (["internal", "external"] as const).map((policy) => ({
          labels: { ip_family: FAMILY_NAMES[family], traffic_policy: policy },
          value: desired().noLocal[family][policy],
        }))
      ),
  });
  make.reading({
    type: "counter",
    definition: [
      "signpost_drift_repairs_total",
      "Repairs of rules that another program had changed",
    ],
    read: () => [{ labels: {}, value: observed().driftRepairs }],
  });
  make.readGauge(
    ["signpost_vip_conflicts", "Virtual IPs and ports that more than one Service claims"],
    () => desired().conflictCount,
  );
}

/** Reads one value for each family. */
function samplesOf(families: readonly Family[], read: (family: Family) => number): Sample[] {
  return families.map((family) => ({
    labels: { ip_family: FAMILY_NAMES[family] },
    value: read(family),
  }));
}

function defineWatches(make: Registry, { observed }: MetricsOptions): void {
  const byKind = (read: (watch: WatchStatus) => number | undefined) => () =>
    [...observed().watches].flatMap(([kind, watch]) => {
      const value = read(watch);
      return value === undefined ? [] : [{ labels: { kind }, value }];
    });
  make.reading({
    type: "gauge",
    definition: ["signpost_watch_connected", "1 while the watch is running"],
    read: byKind(({ state }) => state === "watching" ? 1 : 0),
  });
  make.reading({
    type: "gauge",
    definition: [
      "signpost_watch_last_activity_timestamp_seconds",
      "When the watch last delivered anything",
    ],
    read: byKind(({ lastEvent }) => lastEvent === 0 ? undefined : lastEvent / 1000),
  });
  make.reading({
    type: "counter",
    definition: ["signpost_watch_relists_total", "How often a watch started over with a list"],
    read: byKind(({ lists }) => Math.max(0, lists - 1)),
  });
}

/** Returns the text of the connection counters, the metric with most values. */
export function renderConnections(
  connections: AsyncIterable<readonly ServiceConnections[]>,
): Promise<string> {
  return counterText(CONNECTIONS, toSamples(connections));
}

async function* toSamples(
  connections: AsyncIterable<readonly ServiceConnections[]>,
): AsyncGenerator<readonly Sample[]> {
  for await (const batch of connections) {
    yield batch.map(({ connections: value, perSecond: _, ...labels }) => ({
      labels: { ...labels, port: `${labels.port}` },
      value,
    }));
  }
}

function defineProcess(make: Registry, options: MetricsOptions): void {
  const { process, snapshotAge, isStale, findings, refused } = options;
  const gauges: readonly (readonly [string, string, () => number | undefined])[] = [
    ["signpost_snapshot_age_seconds", "Seconds since the state file was written", snapshotAge],
    [
      "signpost_state_stale",
      "1 while the rules are those of the state file",
      () => isStale() ? 1 : 0,
    ],
    ["process_resident_memory_bytes", "Resident memory, in bytes", () => process.residentMemory()],
    [
      "process_start_time_seconds",
      "When the process was started, seconds since the epoch",
      () => process.started,
    ],
    ["nodejs_heap_size_total_bytes", "V8's heap, in bytes", () => process.heap().total],
    ["nodejs_heap_size_used_bytes", "V8's heap in use, in bytes", () => process.heap().used],
    [
      "nodejs_external_memory_bytes",
      "Memory that V8's objects hold outside of its heap, in bytes",
      () => process.heap().external,
    ],
  ];
  for (const [name, help, read] of gauges) make.readGauge([name, help], read);
  make.reading({
    type: "counter",
    definition: ["process_cpu_seconds_total", "Processor time, user and system, in seconds"],
    read: () => [{ labels: {}, value: process.cpu() }],
  });
  make.reading({
    type: "gauge",
    definition: ["signpost_node_findings", "Findings on this node by kind, see docs/findings.md"],
    read: () => countFindings(findings()),
  });
  make.reading({
    type: "gauge",
    definition: ["signpost_objects_refused", "Objects that cannot be used at present"],
    read: () => countRefused(refused()),
  });
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

/** Defines the build. Alerts compare `git_version` over all components, so it begins with kube-proxy's version. */
function defineBuild(make: Registry, options: MetricsOptions): void {
  const { version, commit, featureGates, process } = options;
  make.reading({
    type: "gauge",
    definition: ["signpost_build_info", "Version and commit; always 1"],
    read: () => [{ labels: { version, commit }, value: 1 }],
  });
  const [major = "", minor = ""] = KUBERNETES_VERSION.split(".");
  const labels = {
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
  make.reading({
    type: "gauge",
    definition: [
      "kubernetes_build_info",
      "The kube-proxy whose behaviour this is, and what it is built with",
    ],
    read: () => [{ labels, value: 1 }],
  });
  make.reading({
    type: "gauge",
    definition: ["kubernetes_feature_enabled", "1 if a feature gate is on"],
    read: () =>
      featureGates.map(({ name, stage, enabled }) => ({
        labels: { name, stage },
        value: enabled ? 1 : 0,
      })),
  });
}

function defineLocalhost(make: Registry, { families, localhost }: MetricsOptions): void {
  if (!localhost) return;
  const byFamily = (read: (counts: FamilyCounts, family: Family) => number) => () =>
    samplesOf(families, (family) => read(localhost.counts[family], family));
  make.reading({
    type: "gauge",
    definition: [`${LOCALHOST}_listeners`, "Listeners on loopback that are open"],
    read: byFamily((_, family) => localhost.listeners(family)),
  });
  make.reading({
    type: "counter",
    definition: [
      `${LOCALHOST}_listener_creation_failures_total`,
      "Listeners on loopback that could not be opened",
    ],
    read: byFamily(({ listenFailures }) => listenFailures),
  });
  make.readGauge(
    ["signpost_localhost_nodeport_connections", "Connections through listeners on loopback"],
    () => localhost.connections,
  );
  make.reading({
    type: "counter",
    definition: [
      "signpost_localhost_nodeport_connections_total",
      "Connections that reached an endpoint",
    ],
    read: byFamily(({ connections }) => connections),
  });
  make.reading({
    type: "counter",
    definition: [
      "signpost_localhost_nodeport_connection_failures_total",
      "Connections that were closed before they reached an endpoint",
    ],
    read: () =>
      families.flatMap((family) =>
        Object.entries(localhost.counts[family].failures).map(([reason, value]) => ({
          labels: { ip_family: FAMILY_NAMES[family], reason },
          value,
        }))
      ),
  });
}
