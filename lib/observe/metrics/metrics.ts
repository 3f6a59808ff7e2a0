/**
 * All metrics of one process, in a registry of their own.
 *
 * @module
 */
import { type MetricFactory, metricFactory, Registry } from "./metric_factory.ts";
import {
  type ClientMetrics,
  clientMetrics,
  type KubeProxyMetrics,
  kubeProxyMetrics,
  type KubeProxyMetricsOptions,
} from "./kubeproxy_metrics.ts";
import {
  localhostMetrics,
  type LocalhostMetricsOptions,
  renderConnections,
  type SignpostMetrics,
  signpostMetrics,
  type SignpostMetricsOptions,
} from "./signpost_metrics.ts";
import type { KnownGate } from "../../config/checks.ts";
import { KUBERNETES_VERSION } from "../../model/version.ts";

/** Recorders of all metrics, and their text. */
export interface Metrics extends KubeProxyMetrics, ClientMetrics, SignpostMetrics {
  /** The metrics in Prometheus' text format. */
  render(): Promise<{ readonly contentType: string; readonly body: string }>;
}

/** What the metrics depend on and read. */
export interface MetricsOptions
  extends
    KubeProxyMetricsOptions,
    ProcessMetricsOptions,
    SignpostMetricsOptions,
    LocalhostMetricsOptions {}

/** Makes the metrics; nothing global is touched. */
export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  const make = metricFactory(registry);
  processMetrics(make, options);
  localhostMetrics(make, options);
  return {
    ...kubeProxyMetrics(make, options),
    ...clientMetrics(make),
    ...signpostMetrics(make, options),
    render: async () => {
      const { contentType } = registry;
      const body = await registry.metrics();
      const connections = options.connections?.();
      return {
        contentType,
        body: connections ? `${body}\n${await renderConnections(connections)}\n` : body,
      };
    },
  };
}

/** Reads the resources that the process uses. */
export interface ProcessUsage {
  /** Bytes of resident memory. */
  residentMemory(): number;
  /** Bytes of V8's heap: what it has taken, what objects fill, what is kept outside for them. */
  heap(): { readonly total: number; readonly used: number; readonly external: number };
  /** Seconds of processor time, user and system. */
  cpu(): number;
  /** When the process was started, seconds since the epoch. */
  readonly started: number;
  /** System and machine, for example `linux/amd64`. */
  readonly platform: string;
}

/** Gives the values of these metrics. */
export interface ProcessMetricsOptions {
  readonly version: string;
  readonly commit: string;
  readonly featureGates: readonly KnownGate[];
  readonly process: ProcessUsage;
}

/** Defines the metrics; all of them are read when they are asked for. */
export function processMetrics(make: MetricFactory, options: ProcessMetricsOptions): void {
  const { process } = options;
  defineBuild(make, options);
  const gates = make.gauge(
    ["kubernetes_feature_enabled", "1 where a feature gate is on"],
    ["name", "stage"],
  );
  for (const { name, stage, enabled } of options.featureGates) {
    gates.set({ name, stage }, enabled ? 1 : 0);
  }
  const gauges: readonly (readonly [string, string, () => number])[] = [
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
  make.readCounters(
    ["process_cpu_seconds_total", "Processor time, user and system, in seconds"],
    { labels: [], read: () => [{ labels: {}, value: process.cpu() }] },
  );
}

/** Alerts compare `git_version` over all components: it begins with the kube-proxy that this is like. */
function defineBuild(
  make: MetricFactory,
  { version, commit, process }: ProcessMetricsOptions,
): void {
  make.gauge(["signpost_build_info", "Version and commit; always 1"], ["version", "commit"])
    .set({ version, commit }, 1);
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
  const names = Object.keys(labels) as (keyof typeof labels)[];
  make.gauge(
    ["kubernetes_build_info", "The kube-proxy whose behaviour this is, and what it is built with"],
    names,
  ).set(labels, 1);
}
