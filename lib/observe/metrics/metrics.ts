/**
 * All metrics of one process, in a registry of their own.
 *
 * @module
 */
import { Registry } from "./prom_client.ts";
import { type ClientMetrics, clientMetrics } from "./client_metrics.ts";
import {
  type KubeProxyMetrics,
  kubeProxyMetrics,
  type KubeProxyMetricsOptions,
} from "./kubeproxy_metrics.ts";
import { localhostMetrics, type LocalhostMetricsOptions } from "./localhost_metrics.ts";
import { metricFactory } from "./metric_factory.ts";
import { processMetrics, type ProcessMetricsOptions } from "./process_metrics.ts";
import {
  renderConnections,
  type SignpostMetrics,
  signpostMetrics,
  type SignpostMetricsOptions,
} from "./signpost_metrics.ts";

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
