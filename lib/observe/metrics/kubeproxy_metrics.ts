/**
 * kube-proxy's metrics by their own names, labels and buckets (`pkg/proxy/metrics`), and client-go's of
 * requests to the API server (`component-base/metrics/prometheus/restclient`), so that
 * existing dashboards and alerts work.
 *
 * signpost writes both families in one transaction: what one sync took counts for each of them.
 *
 * @module
 */
import type { BackendMetrics, FailureMetric } from "../../backend/backend.ts";
import {
  exponentialBuckets,
  familyLabels,
  linearBuckets,
  type MetricFactory,
} from "./metric_factory.ts";
import { type Family, FAMILY_NAMES } from "../../model/values/address.ts";

/** Numbers of changes of endpoint slices and of Services. */
export interface ChangeCounts {
  readonly endpoints: number;
  readonly services: number;
}

/** Records what kube-proxy's metrics tell. Durations are seconds. */
export interface KubeProxyMetrics {
  /** A sync was asked for. */
  syncQueued(): void;
  /** A sync has ended well. */
  syncFinished(sync: { readonly kind: "full" | "partial"; readonly seconds: number }): void;
  /** The kernel or the tool has refused a transaction. */
  syncFailed(kind: "full" | "partial"): void;
  /** Leftovers could not be removed (nftables mode). */
  cleanupFailed(): void;
  /** From an endpoint's change trigger time until its rules were in the kernel. */
  networkProgrammed(seconds: number): void;
  /** Changes that came in. */
  changesSeen(counts: ChangeCounts): void;
  /** Changes that the kernel does not have yet. */
  changesPending(counts: ChangeCounts): void;
  /** Service ports with a Local traffic policy and no local endpoint. */
  noLocalEndpoints(
    family: Family,
    counts: { readonly internal: number; readonly external: number },
  ): void;
  /** A clean-up of stale conntrack entries has ended. */
  conntrackReconciled(
    family: Family,
    result: { readonly seconds: number; readonly deleted: number },
  ): void;
  /** An answer of the health server. */
  healthAnswered(path: "healthz" | "livez", status: number): void;
}

/** What the metrics of kube-proxy depend on. */
export interface KubeProxyMetricsOptions {
  readonly backend: BackendMetrics;
  /** The families that this node serves. */
  readonly families: readonly Family[];
  /** Seconds since the epoch. */
  readonly now: () => number;
}

/** 1 ms to 16 s. */
const SYNC_BUCKETS = exponentialBuckets(0.001, 2, 15);
/** To one minute finely, to five coarsely. */
const PROGRAMMING_BUCKETS = [
  ...linearBuckets(0.25, 0.25, 2),
  ...linearBuckets(1, 1, 59),
  ...linearBuckets(60, 5, 12),
  ...linearBuckets(120, 30, 7),
];

const PREFIX = "kubeproxy_sync_proxy_rules_";

/** Defines the metrics and gives their recorders. */
export function kubeProxyMetrics(
  make: MetricFactory,
  options: KubeProxyMetricsOptions,
): KubeProxyMetrics {
  for (const { definition, labels, read } of options.backend.counters) {
    make.readCounters(definition, { labels, read });
  }
  for (const { definition, labels, read } of options.backend.gauges) {
    make.readGauges(definition, { labels, read });
  }
  return {
    ...syncMetrics(make, options),
    ...failureMetrics(make, options),
    ...changeMetrics(make),
    ...conntrackMetrics(make),
    ...healthMetrics(make),
  };
}

function syncMetrics(
  make: MetricFactory,
  { families, now }: KubeProxyMetricsOptions,
): Pick<KubeProxyMetrics, "syncQueued" | "syncFinished" | "networkProgrammed"> {
  const duration = (kind: string, what: string) =>
    make.histogram([`kubeproxy_sync_${kind}proxy_rules_duration_seconds`, what], {
      labels: ["ip_family"],
      buckets: SYNC_BUCKETS,
    });
  const all = duration("", "Duration of a sync, in seconds");
  const byKind = {
    full: duration("full_", "Duration of a full sync, in seconds"),
    partial: duration("partial_", "Duration of a partial sync, in seconds"),
  };
  const programming = make.histogram(
    [
      "kubeproxy_network_programming_duration_seconds",
      "From a change of endpoints until the kernel has it, in seconds",
    ],
    { labels: ["ip_family"], buckets: PROGRAMMING_BUCKETS },
  );
  const queuedAt = make.gauge(
    [`${PREFIX}last_queued_timestamp_seconds`, "When a sync was last asked for"],
    ["ip_family"],
  );
  const syncedAt = make.gauge(
    [`${PREFIX}last_timestamp_seconds`, "When a sync last ended well"],
    ["ip_family"],
  );
  const labels = familyLabels(families);
  return {
    syncQueued: () => labels.forEach((label) => queuedAt.set(label, now())),
    syncFinished: ({ kind, seconds }) => {
      for (const label of labels) {
        all.observe(label, seconds);
        byKind[kind].observe(label, seconds);
        syncedAt.set(label, now());
      }
    },
    networkProgrammed: (seconds) => labels.forEach((label) => programming.observe(label, seconds)),
  };
}

function failureMetrics(
  make: MetricFactory,
  { families, backend }: KubeProxyMetricsOptions,
): Pick<KubeProxyMetrics, "syncFailed" | "cleanupFailed"> {
  const labels = familyLabels(families);
  const counters = backend.failures.map(({ of, definition }) => {
    const counter = make.counter(definition, ["ip_family"]);
    const add = (count: number) => labels.forEach((label) => counter.inc(label, count));
    add(0);
    return { of, add };
  });
  const count = (what: FailureMetric["of"]) => {
    for (const { of, add } of counters) if (of === what) add(1);
  };
  return {
    syncFailed: (kind) => {
      count("sync");
      if (kind === "partial") count("partial sync");
    },
    cleanupFailed: () => count("clean-up"),
  };
}

function changeMetrics(
  make: MetricFactory,
): Pick<KubeProxyMetrics, "changesSeen" | "changesPending" | "noLocalEndpoints"> {
  const metrics = (kind: "endpoint" | "service") => ({
    total: make.counter([`${PREFIX}${kind}_changes_total`, `Changes of ${kind}s seen`], []),
    pending: make.gauge(
      [`${PREFIX}${kind}_changes_pending`, `Changes of ${kind}s not yet in the kernel`],
      [],
    ),
  });
  const endpoints = metrics("endpoint");
  const services = metrics("service");
  const noLocal = make.gauge(
    [
      `${PREFIX}no_local_endpoints_total`,
      "Service ports with a Local traffic policy and no local endpoint",
    ],
    ["ip_family", "traffic_policy"],
  );
  return {
    changesSeen: (counts) => {
      endpoints.total.inc(counts.endpoints);
      services.total.inc(counts.services);
    },
    changesPending: (counts) => {
      endpoints.pending.set(counts.endpoints);
      services.pending.set(counts.services);
    },
    noLocalEndpoints: (family, { internal, external }) => {
      const ip_family = FAMILY_NAMES[family];
      noLocal.set({ ip_family, traffic_policy: "internal" }, internal);
      noLocal.set({ ip_family, traffic_policy: "external" }, external);
    },
  };
}

function conntrackMetrics(make: MetricFactory): Pick<KubeProxyMetrics, "conntrackReconciled"> {
  const duration = make.histogram(
    [
      "kubeproxy_conntrack_reconciler_sync_duration_seconds",
      "Duration of a clean-up of conntrack entries, in seconds",
    ],
    { labels: ["ip_family"], buckets: SYNC_BUCKETS },
  );
  const deletions = make.counter(
    [
      "kubeproxy_conntrack_reconciler_deleted_entries_total",
      "Stale conntrack entries that were deleted",
    ],
    ["ip_family"],
  );
  return {
    conntrackReconciled: (family, { seconds, deleted }) => {
      const label = { ip_family: FAMILY_NAMES[family] };
      duration.observe(label, seconds);
      deletions.inc(label, deleted);
    },
  };
}

function healthMetrics(make: MetricFactory): Pick<KubeProxyMetrics, "healthAnswered"> {
  const counter = (path: string) =>
    make.counter([`kubeproxy_proxy_${path}_total`, `Answers of /${path}`], ["code"]);
  const answers = { healthz: counter("healthz"), livez: counter("livez") };
  return {
    healthAnswered: (path, status) => answers[path].inc({ code: String(status) }),
  };
}

/** A request to the API server. */
export interface RestTarget {
  /** `GET`, `POST`; lists and watches are GET. */
  readonly verb: string;
  /** Host and port of the API server. */
  readonly host: string;
}

/** One request that was answered, or failed. */
export interface RestRequest extends RestTarget {
  /** HTTP status as text; client-go says `<error>` where there was no answer. */
  readonly code: string;
  /** Until the answer's headers were in. */
  readonly seconds: number;
  /** Size of its body, in bytes. */
  readonly size: number;
  /** The result of the failed request that this one repeats. */
  readonly retryOf?: string;
}

/** Records requests. */
export interface ClientMetrics {
  /** A request to the API server has been answered, or has failed. */
  request(request: RestRequest): void;
  /** The body of an answer was read, in bytes; those of watches do not count. */
  response(response: RestTarget & { readonly size: number }): void;
}

const SECONDS_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
/** 64 bytes to 16 MiB. */
const BYTES_BUCKETS = [
  ...[64, 256, 512, 1_024, 4_096, 16_384, 65_536, 262_144],
  ...[1_048_576, 4_194_304, 16_777_216],
];

/** Defines the metrics and gives their recorders. */
export function clientMetrics(make: MetricFactory): ClientMetrics {
  const requests = make.counter(
    ["rest_client_requests_total", "Requests to the API server"],
    ["code", "host", "method"],
  );
  const retries = make.counter(
    ["rest_client_request_retries_total", "Requests that were sent again after a failure"],
    ["code", "host", "verb"],
  );
  const histogram = (name: string, help: string, buckets: readonly number[]) =>
    make.histogram([name, help], { labels: ["host", "verb"], buckets });
  const durations = histogram(
    "rest_client_request_duration_seconds",
    "Until the API server answered, in seconds",
    SECONDS_BUCKETS,
  );
  const requestSizes = histogram(
    "rest_client_request_size_bytes",
    "Size of a request's body, in bytes",
    BYTES_BUCKETS,
  );
  const responseSizes = histogram(
    "rest_client_response_size_bytes",
    "Size of an answer's body, in bytes; watches do not count",
    BYTES_BUCKETS,
  );
  return {
    request: ({ verb, host, code, seconds, size, retryOf }) => {
      requests.inc({ code, host, method: verb });
      durations.observe({ host, verb }, seconds);
      requestSizes.observe({ host, verb }, size);
      if (retryOf !== undefined) retries.inc({ code: retryOf, host, verb });
    },
    response: ({ verb, host, size }) => responseSizes.observe({ host, verb }, size),
  };
}
