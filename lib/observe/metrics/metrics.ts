/**
 * Records metrics with the names, labels and buckets of kube-proxy (`pkg/proxy/metrics`) and client-go
 * (`component-base/metrics/prometheus/restclient`). A sync has the rules of both families, and counts for each.
 */
import { CONTENT_TYPE, exponentialBuckets, linearBuckets, Registry } from "./registry.ts";
import { connectionsText, type MetricsOptions, readings } from "./readings.ts";
import type { FailureMetric } from "../../backend/metrics.ts";
import type { Script } from "../../model/kernel/dataplane.ts";
import { type Family, FAMILY_NAMES } from "../../model/values/address.ts";
import type { RequestResult, ResponseRead } from "../../source/api/api_client.ts";

/** 1 ms to 16 s. */
const SYNC_BUCKETS = exponentialBuckets(0.001, 2, 15);
/** To one minute finely, to five coarsely. */
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
    for (const metric of readings(options)) this.#registry.reading(metric);
  }

  async render(): Promise<{ readonly contentType: string; readonly body: string }> {
    const connections = this.options.connections?.();
    const parts = [await this.#registry.text()];
    if (connections) parts.push(`${await connectionsText(connections)}\n`);
    return { contentType: CONTENT_TYPE, body: parts.join("\n") };
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
