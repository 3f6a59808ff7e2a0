/**
 * Metrics that kube-proxy does not have.
 *
 * @module
 */
import { exponentialBuckets, type MetricFactory, renderCounter } from "./metric_factory.ts";
import { CATALOG } from "../../findings/catalog.ts";
import type { Finding } from "../../model/status.ts";
import type { Kind } from "../../model/cluster/objects.ts";
import type { ProgramFailure } from "../../model/ports/ports.ts";
import type { ServiceConnections } from "../../model/connections.ts";
import { grouped } from "../../model/values/text.ts";
import { MOST_FRONTENDS, TIMES_AS_LONG } from "../../backend/connections.ts";
import type { Sample } from "../../backend/backend.ts";
import type { FamilyCounts, LocalhostListeners } from "../../localhost/listeners.ts";
import { type Family, FAMILY_NAMES } from "../../model/values/address.ts";

/** Records what is signpost's own. */
export interface SignpostMetrics {
  /** A transaction was given to the kernel. */
  transaction(kind: "full" | "partial", bytes: number): void;
  /** Another program had changed our rules, and they were put back. */
  driftRepaired(): void;
  /** A program could not be started, was killed, or did not end in time. */
  programFailed(program: string, reason: ProgramFailure): void;
  /** A watch is running, or not. */
  watch(kind: Kind, connected: boolean): void;
  /** A watch has delivered something, bookmarks included. */
  watchActive(kind: Kind): void;
  /** A watch had to start over with a list. */
  relisted(kind: Kind): void;
  /** An object could not be used. */
  objectRefused(kind: Kind): void;
  /** Number of objects that cannot be used at present. */
  objectsRefusedNow(kind: Kind, count: number): void;
  /** Number of virtual IPs and ports at present that more than one Service claims. */
  vipConflicts(count: number): void;
  /** An Event was not sent. */
  eventDropped(): void;
}

/** Gives the values of these metrics. */
export interface SignpostMetricsOptions {
  /** Seconds since the epoch. */
  readonly now: () => number;
  /** Seconds since the state file was written; `undefined`: there is none. */
  readonly snapshotAge: () => number | undefined;
  /** The rules are those of the snapshot: the watches have not delivered yet. */
  readonly isStale: () => boolean;
  /** The present node findings. */
  readonly findings: () => readonly Finding[];
  /** The connections of each Service, in batches with pauses between; `undefined`: they are not counted. */
  readonly connections?: (() => AsyncIterable<readonly ServiceConnections[]>) | undefined;
}

/** 256 bytes to 64 MiB. */
const BYTES_BUCKETS = exponentialBuckets(256, 4, 10);

/** Defines the metrics and gives their recorders. */
export function signpostMetrics(
  make: MetricFactory,
  options: SignpostMetricsOptions,
): SignpostMetrics {
  defineReadings(make, options);
  return {
    ...dataplaneMetrics(make),
    ...watchMetrics(make, options),
    ...objectMetrics(make),
  };
}

function defineReadings(make: MetricFactory, options: SignpostMetricsOptions): void {
  const { snapshotAge, isStale, findings } = options;
  make.readGauge(
    ["signpost_snapshot_age_seconds", "Seconds since the state file was written"],
    snapshotAge,
  );
  make.readGauge(
    ["signpost_state_stale", "1 while the rules are those of the state file"],
    () => isStale() ? 1 : 0,
  );
  make.readGauges(
    ["signpost_node_findings", "Findings on this node by kind, see docs/findings.md"],
    { labels: ["id", "severity"], read: () => countFindings(findings()) },
  );
}

/** Every kind has a value, so that an alert can tell "none" from "not known". */
function countFindings(findings: readonly Finding[]): Sample[] {
  const counts = Map.groupBy(findings, ({ id }) => id);
  return Object.entries(CATALOG).map(([id, { severity }]) => ({
    labels: { id, severity },
    value: counts.get(id)?.length ?? 0,
  }));
}

/** The counter of connections as text; the one that may have very many values. */
export function renderConnections(
  connections: AsyncIterable<readonly ServiceConnections[]>,
): Promise<string> {
  return renderCounter(
    [
      "signpost_service_connections_total",
      "New connections of a service port by kind of frontend, from the first one on. Read from the kernel at " +
      `most every 5 s, above ${
        grouped(MOST_FRONTENDS)
      } frontends every 0.25 ms for each of them, and for ${TIMES_AS_LONG.scrape} times as long as the last reading took`,
    ],
    {
      labels: ["namespace", "service", "port", "protocol", "frontend"],
      batches: toSamples(connections),
    },
  );
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

function dataplaneMetrics(
  make: MetricFactory,
): Pick<SignpostMetrics, "transaction" | "driftRepaired" | "programFailed"> {
  const bytes = make.histogram(["signpost_transaction_bytes", "Size of a transaction"], {
    labels: ["kind"],
    buckets: BYTES_BUCKETS,
  });
  const repairs = make.counter(
    ["signpost_drift_repairs_total", "Repairs of rules that another program had changed"],
    [],
  );
  const programs = make.counter(
    [
      "signpost_program_failures_total",
      "Programs that could not be started, were ended by a signal, or did not end in time",
    ],
    ["program", "reason"],
  );
  return {
    transaction: (kind, size) => bytes.observe({ kind }, size),
    driftRepaired: () => repairs.inc(),
    programFailed: (program, reason) => programs.inc({ program, reason }),
  };
}

function watchMetrics(
  make: MetricFactory,
  { now }: SignpostMetricsOptions,
): Pick<SignpostMetrics, "watch" | "watchActive" | "relisted"> {
  const connected = make.gauge(
    ["signpost_watch_connected", "1 while the watch is running"],
    ["kind"],
  );
  const active = make.gauge(
    ["signpost_watch_last_activity_timestamp_seconds", "When the watch last delivered anything"],
    ["kind"],
  );
  const relists = make.counter(
    ["signpost_watch_relists_total", "How often a watch started over with a list"],
    ["kind"],
  );
  return {
    watch: (kind, isConnected) => connected.set({ kind }, isConnected ? 1 : 0),
    watchActive: (kind) => active.set({ kind }, now()),
    relisted: (kind) => relists.inc({ kind }),
  };
}

function objectMetrics(
  make: MetricFactory,
): Pick<
  SignpostMetrics,
  "objectRefused" | "objectsRefusedNow" | "vipConflicts" | "eventDropped"
> {
  const refusals = make.counter(
    ["signpost_objects_refused_total", "Objects that came in and could not be used"],
    ["kind"],
  );
  const refused = make.gauge(
    ["signpost_objects_refused", "Objects that cannot be used at present"],
    ["kind"],
  );
  const conflicts = make.gauge(
    ["signpost_vip_conflicts", "Virtual IPs and ports that more than one Service claims"],
    [],
  );
  const dropped = make.counter(["signpost_events_dropped_total", "Events that were not sent"], []);
  return {
    objectRefused: (kind) => refusals.inc({ kind }),
    objectsRefusedNow: (kind, count) => refused.set({ kind }, count),
    vipConflicts: (count) => conflicts.set(count),
    eventDropped: () => dropped.inc(),
  };
}

/** Inputs of `localhostMetrics`. */
export interface LocalhostMetricsOptions {
  readonly families: readonly Family[];
  /** `undefined`: this mode has no such listeners. */
  readonly localhost?: Pick<LocalhostListeners, "listeners" | "counts" | "connections"> | undefined;
}

const PREFIX = "kubeproxy_nftables_localhost_nodeport";

/** Defines the metrics; all of them are read when they are asked for. */
export function localhostMetrics(
  make: MetricFactory,
  { families, localhost }: LocalhostMetricsOptions,
): void {
  if (!localhost) return;
  const labels = ["ip_family"];
  const byFamily = (read: (family: Family) => number) => () =>
    families.map((family) => ({
      labels: { ip_family: FAMILY_NAMES[family] },
      value: read(family),
    }));
  const count = (read: (counts: FamilyCounts) => number) =>
    byFamily((family) => read(localhost.counts[family]));
  make.readGauges([`${PREFIX}_listeners`, "Listeners on loopback that are open"], {
    labels,
    read: byFamily((family) => localhost.listeners(family)),
  });
  make.readCounters(
    [
      `${PREFIX}_listener_creation_failures_total`,
      "Listeners on loopback that could not be opened",
    ],
    { labels, read: count(({ listenFailures }) => listenFailures) },
  );
  make.readGauge(
    ["signpost_localhost_nodeport_connections", "Connections through listeners on loopback"],
    () => localhost.connections,
  );
  make.readCounters(
    ["signpost_localhost_nodeport_connections_total", "Connections that reached an endpoint"],
    { labels, read: count(({ connections }) => connections) },
  );
  make.readCounters(
    [
      "signpost_localhost_nodeport_connection_failures_total",
      "Connections that were closed before they reached an endpoint",
    ],
    {
      labels: [...labels, "reason"],
      read: () =>
        families.flatMap((family) =>
          Object.entries(localhost.counts[family].failures).map(([reason, value]) => ({
            labels: { ip_family: FAMILY_NAMES[family], reason },
            value,
          }))
        ),
    },
  );
}
