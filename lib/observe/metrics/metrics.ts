/**
 * Records metrics with the names, labels and buckets of kube-proxy (`pkg/proxy/metrics`) and client-go
 * (`component-base/metrics/prometheus/restclient`). A sync writes the rules of both families, so each counts it.
 */
import { TIMES_AS_LONG } from "../../backend/connections.ts";
import type {
  BackendMetrics,
  Definition,
  FailureMetric,
  ReadMetric,
  Sample,
} from "../../backend/metrics.ts";
import type { KnownGate } from "../../config/checks.ts";
import { CATALOG } from "../../findings/catalog.ts";
import type { FamilyCounts, LocalhostListeners } from "../../localhost/listeners.ts";
import { type Kind, KINDS, type Refusal } from "../../model/cluster/objects.ts";
import { COMMIT } from "../../model/commit.ts";
import type { ServiceConnections } from "../../model/connections.ts";
import type { Script } from "../../model/kernel/dataplane.ts";
import type { Finding } from "../../model/status.ts";
import { FAMILIES, type Family, FAMILY_NAMES } from "../../model/values/address.ts";
import { KUBERNETES_VERSION, VERSION } from "../../model/version.ts";
import type { Desired } from "../../policy/state.ts";
import type { RequestResult, ResponseRead } from "../../source/api/api_client.ts";
import type { WatchStatus } from "../../source/api/reflector.ts";
import type { SyncProgress } from "../../sync/reports.ts";
import { CONTENT_TYPE, exponentialBuckets, linearBuckets, Registry } from "./registry.ts";

/** Reads the resources that the process uses. */
export interface ProcessUsage {
  /** Returns bytes: resident memory, V8's heap, its objects, and their memory outside of the heap. */
  memory(): Readonly<Record<"rss" | "heapTotal" | "heapUsed" | "external", number>>;
  /** Seconds of processor time, user and system. */
  cpu(): number;
  /** The start of the process, seconds since the epoch. */
  readonly started: number;
  /** System and machine, for example `linux/amd64`. */
  readonly platform: string;
}

/** The daemon's counts of its work. */
export interface Observed {
  /** All changes, and the changes that are not in the kernel yet. */
  readonly changes: Readonly<
    Record<"EndpointSlice" | "Service", { readonly total: number; readonly pending: number }>
  >;
  readonly watches: ReadonlyMap<Kind, WatchStatus>;
  readonly driftRepairs: number;
  /** The API server's version, such as `1.33.4`; `undefined` if it is not known. */
  readonly serverVersion: string | undefined;
}

interface MetricsOptions {
  readonly backend: BackendMetrics;
  readonly families: readonly Family[];
}

/** The values that each request for metrics reads. */
export interface MetricsSources {
  readonly observed: Observed;
  readonly sync: () => SyncProgress;
  readonly desired: Pick<Desired, "noLocal" | "conflictCount">;
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

/** 1 ms to 16 s. */
const SYNC_BUCKETS = exponentialBuckets(0.001, 2, 15);
/** Fine buckets to one minute, coarse buckets to five. */
const PROGRAMMING_BUCKETS = [
  ...linearBuckets(0.25, 0.25, 2),
  ...linearBuckets(1, 1, 59),
  ...linearBuckets(60, 5, 12),
  ...linearBuckets(120, 30, 7),
];
const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
/** 64 bytes to 16 MiB. */
const BODY_BUCKETS = [
  ...[64, 256, 512, 1_024, 4_096, 16_384, 65_536, 262_144],
  ...[1_048_576, 4_194_304, 16_777_216],
];
/** 256 bytes to 64 MiB. */
const SCRIPT_BUCKETS = exponentialBuckets(256, 4, 10);

export class Metrics {
  readonly #registry = new Registry();
  readonly #families: readonly { readonly ip_family: string }[];
  readonly #failures: readonly { of: FailureMetric["of"]; count: (more: number) => void }[];

  readonly #duration = {
    all: this.#durationOf("", "Duration of a sync, in seconds"),
    full: this.#durationOf("full_", "Duration of a full sync, in seconds"),
    partial: this.#durationOf("partial_", "Duration of a partial sync, in seconds"),
  };
  readonly #programming = this.#registry.histogram<"ip_family">([
    "kubeproxy_network_programming_duration_seconds",
    "From a change of endpoints until the kernel has it, in seconds",
  ], PROGRAMMING_BUCKETS);
  readonly #conntrackDuration = this.#registry.histogram<"ip_family">([
    "kubeproxy_conntrack_reconciler_sync_duration_seconds",
    "Duration of a clean-up of conntrack entries, in seconds",
  ], SYNC_BUCKETS);
  readonly #conntrackDeleted = this.#registry.counter<"ip_family">([
    "kubeproxy_conntrack_reconciler_deleted_entries_total",
    "Stale conntrack entries that were deleted",
  ]);
  readonly #answers = {
    healthz: this.#registry.counter<"code">([
      "kubeproxy_proxy_healthz_total",
      "Answers of /healthz",
    ]),
    livez: this.#registry.counter<"code">(["kubeproxy_proxy_livez_total", "Answers of /livez"]),
  };

  readonly #requests = this.#registry.counter<"code" | "host" | "method">(
    ["rest_client_requests_total", "Requests to the API server"],
  );
  readonly #retries = this.#registry.counter<"code" | "host" | "verb">(
    ["rest_client_request_retries_total", "Requests that were sent again after a failure"],
  );
  readonly #requestDuration = this.#registry.histogram<"host" | "verb">([
    "rest_client_request_duration_seconds",
    "Until the API server answered, in seconds",
  ], REQUEST_BUCKETS);
  readonly #requestSize = this.#registry.histogram<"host" | "verb">(
    ["rest_client_request_size_bytes", "Size of a request's body, in bytes"],
    BODY_BUCKETS,
  );
  readonly #responseSize = this.#registry.histogram<"host" | "verb">([
    "rest_client_response_size_bytes",
    "Size of an answer's body, in bytes; watches do not count",
  ], BODY_BUCKETS);

  readonly #scriptSize = this.#registry.histogram<"kind">(
    ["signpost_transaction_bytes", "Size of a transaction"],
    SCRIPT_BUCKETS,
  );
  readonly programFailures = this.#registry.counter<"program" | "reason">([
    "signpost_program_failures_total",
    "Programs that could not be started, were ended by a signal, or did not end in time",
  ]);
  readonly refusals = this.#registry.counter<"kind">(
    ["signpost_objects_refused_total", "Objects that came in and could not be used"],
  );
  readonly droppedEvents = this.#registry.counter([
    "signpost_events_dropped_total",
    "Events that were not sent",
  ]);

  constructor(private readonly options: MetricsOptions) {
    this.#families = options.families.map((family) => ({ ip_family: FAMILY_NAMES[family] }));
    this.#failures = options.backend.failures.map(({ of, definition }) => {
      const counter = this.#registry.counter<"ip_family">(definition);
      const count = (more: number) => this.#families.forEach((labels) => counter.inc(labels, more));
      count(0);
      return { of, count };
    });
    this.droppedEvents.inc({}, 0);
  }

  /** Adds values that each request for metrics reads. */
  read(sources: MetricsSources): void {
    const metrics = readings({ ...this.options, ...sources });
    for (const metric of metrics) this.#registry.reading(metric);
  }

  async render(): Promise<{ readonly contentType: string; readonly body: string }> {
    return { contentType: CONTENT_TYPE, body: await this.#registry.text() };
  }

  synced({ kind, bytes }: Script, seconds: number): void {
    this.#scriptSize.observe({ kind }, bytes);
    for (const labels of this.#families) {
      this.#duration.all.observe(labels, seconds);
      this.#duration[kind].observe(labels, seconds);
    }
  }

  /** Counts a script that the kernel or the program refused. */
  syncFailed(kind: Script["kind"]): void {
    for (const { of, count } of this.#failures) {
      if (of === "sync" || kind === "partial") count(1);
    }
  }

  /** Records the time from an endpoint's change until its rules were in the kernel. */
  networkProgrammed(seconds: number): void {
    for (const labels of this.#families) this.#programming.observe(labels, seconds);
  }

  conntrackReconciled(
    family: Family,
    { seconds, deleted }: { readonly seconds: number; readonly deleted: number },
  ): void {
    const labels = { ip_family: FAMILY_NAMES[family] };
    this.#conntrackDuration.observe(labels, seconds);
    this.#conntrackDeleted.inc(labels, deleted);
  }

  healthAnswered(path: "healthz" | "livez", status: number): void {
    this.#answers[path].inc({ code: `${status}` });
  }

  requestDone({ verb, host, code, duration, size, retryOf }: RequestResult): void {
    this.#requests.inc({ code, host, method: verb });
    this.#requestDuration.observe({ host, verb }, duration / 1000);
    this.#requestSize.observe({ host, verb }, size);
    if (retryOf !== undefined) this.#retries.inc({ code: retryOf, host, verb });
  }

  responseRead({ verb, host, size }: ResponseRead): void {
    this.#responseSize.observe({ host, verb }, size);
  }

  #durationOf(kind: string, help: string) {
    const name = `kubeproxy_sync_${kind}proxy_rules_duration_seconds`;
    return this.#registry.histogram<"ip_family">([name, help], SYNC_BUCKETS);
  }
}

const SYNC = "kubeproxy_sync_proxy_rules";
const LOCALHOST = "kubeproxy_nftables_localhost_nodeport";

type Sources = MetricsOptions & MetricsSources;

function gauge(definition: Definition, read: ReadMetric["read"]): ReadMetric {
  return { type: "gauge", definition, read };
}

function counter(definition: Definition, read: ReadMetric["read"]): ReadMetric {
  return { type: "counter", definition, read };
}

function readings(options: Sources): ReadMetric[] {
  return [
    ...options.backend.readings,
    ...syncReadings(options),
    ...watchReadings(options),
    ...processReadings(options),
    ...buildReadings(options),
    ...localhostReadings(options),
    ...connectionReadings(options),
  ];
}

function syncReadings({ families, observed, sync, desired }: Sources): ReadMetric[] {
  const seconds = (time: number) => time === 0 ? [] : byFamily(families, () => time / 1000);
  const changes = (kind: keyof Observed["changes"], word: string) => [
    counter(
      [`${SYNC}_${word}_changes_total`, `Changes of ${word}s seen`],
      () => observed.changes[kind].total,
    ),
    gauge(
      [`${SYNC}_${word}_changes_pending`, `Changes of ${word}s not yet in the kernel`],
      () => observed.changes[kind].pending,
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
          Object.entries(desired.noLocal(family)).map(([policy, value]) => ({
            labels: { ip_family: FAMILY_NAMES[family], traffic_policy: policy },
            value,
          }))
        ),
    ),
    counter(
      ["signpost_drift_repairs_total", "Repairs of rules that another program had changed"],
      () => observed.driftRepairs,
    ),
    gauge(
      ["signpost_vip_conflicts", "Virtual IPs and ports that more than one Service claims"],
      () => desired.conflictCount,
    ),
  ];
}

function byFamily(families: readonly Family[], read: (family: Family) => number): Sample[] {
  return families.map((family) => ({
    labels: { ip_family: FAMILY_NAMES[family] },
    value: read(family),
  }));
}

function watchReadings({ observed }: Sources): ReadMetric[] {
  const byKind = (read: (watch: WatchStatus) => number | undefined) => () =>
    [...observed.watches].flatMap(([kind, watch]) => {
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

function processReadings(options: Sources): ReadMetric[] {
  const { process, snapshotAge, isStale, findings, refused } = options;
  return [
    gauge(
      ["signpost_snapshot_age_seconds", "Seconds since the state file was written"],
      snapshotAge,
    ),
    gauge(
      ["signpost_state_stale", "1 while the rules come from the state file"],
      () => isStale() ? 1 : 0,
    ),
    gauge(
      ["process_resident_memory_bytes", "Resident memory, in bytes"],
      () => process.memory().rss,
    ),
    gauge(
      ["process_start_time_seconds", "When the process was started, seconds since the epoch"],
      () => process.started,
    ),
    gauge(
      ["nodejs_heap_size_total_bytes", "V8's heap, in bytes"],
      () => process.memory().heapTotal,
    ),
    gauge(
      ["nodejs_heap_size_used_bytes", "V8's heap in use, in bytes"],
      () => process.memory().heapUsed,
    ),
    gauge(
      [
        "nodejs_external_memory_bytes",
        "Memory that V8's objects hold outside of its heap, in bytes",
      ],
      () => process.memory().external,
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

/** Counts findings. Every kind has a value, so an alert can distinguish "none" and "not known". */
function countFindings(findings: readonly Finding[]): Sample[] {
  const counts = Map.groupBy(findings, ({ id }) => id);
  return Object.entries(CATALOG).map(([id, { severity }]) => ({
    labels: { id, severity },
    value: counts.get(id)?.length ?? 0,
  }));
}

function countRefused(refused: ReturnType<MetricsSources["refused"]>): Sample[] {
  const counts = Map.groupBy(refused, ({ kind }) => kind);
  return KINDS.map((kind) => ({ labels: { kind }, value: counts.get(kind)?.length ?? 0 }));
}

/** Returns the metrics of the build. Alerts compare `git_version`, so it begins with the API server's version. */
function buildReadings({ featureGates, process, observed }: Sources): ReadMetric[] {
  const kubernetes = () => {
    const version = observed.serverVersion ?? KUBERNETES_VERSION;
    const [major = "", minor = ""] = version.split(".");
    return {
      major,
      minor,
      git_version: `v${version}+signpost.${VERSION}`,
      git_commit: COMMIT,
      git_tree_state: "",
      build_date: "",
      go_version: "",
      compiler: "deno",
      platform: process.platform,
    };
  };
  return [
    gauge(
      ["signpost_build_info", "Version and commit; always 1"],
      () => [{ labels: { version: VERSION, commit: COMMIT }, value: 1 }],
    ),
    gauge([
      "kubernetes_build_info",
      "The API server's version, else that of the kube-proxy whose behaviour this is; and the build",
    ], () => [{ labels: kubernetes(), value: 1 }]),
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

function localhostReadings({ families, localhost }: Sources): ReadMetric[] {
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

function connectionReadings({ connections }: Sources): ReadMetric[] {
  if (!connections) return [];
  const read = `from the first one on. Read from the kernel at most every second, and every ` +
    `${TIMES_AS_LONG} times the duration of a reading`;
  return [
    counter([
      "signpost_service_connections_total",
      `New connections of a service port by kind of frontend, ${read}`,
    ], () => samplesOf(connections(), ({ reason }) => reason === undefined)),
    counter([
      "signpost_rejected_connections_total",
      `Connections to a service port that the rules rejected or dropped, by reason, ${read}`,
    ], () => samplesOf(connections(), ({ reason }) => reason !== undefined)),
  ];
}

async function* samplesOf(
  batches: AsyncIterable<readonly ServiceConnections[]>,
  isMeant: (connections: ServiceConnections) => boolean,
): AsyncGenerator<readonly Sample[]> {
  for await (const batch of batches) {
    yield batch.filter(isMeant).map(({ connections: value, perSecond: _, ...labels }) => ({
      labels: { ...labels, port: `${labels.port}` },
      value,
    }));
  }
}
