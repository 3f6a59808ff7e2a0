/**
 * The metrics of a daemon, and where they are read.
 *
 * @module
 */
import { familiesBut } from "../../backend/ip_families.ts";
import { knownGates } from "../../config/checks.ts";
import { COMMIT } from "../../model/commit.ts";
import { VERSION } from "../../model/version.ts";
import { Metrics } from "../../observe/metrics/metrics.ts";
import type { MetricsOptions } from "../../observe/metrics/readings.ts";
import { Connections, type ConnectionsOptions } from "../../backend/connections.ts";
import { processUsage } from "../../system/runtime.ts";
import type { DaemonOptions, Opened } from "../start/options.ts";

/** Makes what reads the connections of each Service, or says why it does not. */
export function openConnections(
  { configuration, nodeName, runtime: { clock }, logger }: Pick<
    DaemonOptions,
    "configuration" | "nodeName" | "runtime" | "logger"
  >,
  { opened, services }: Pick<ConnectionsOptions, "services"> & { readonly opened: Opened },
): Connections {
  const refusal = opened.refusedFeatures.get("connection-counters");
  const off = configuration.signpost.serviceMetrics ? refusal : "--service-metrics is off";
  const counters = off ?? opened.backend.connections;
  return new Connections({ node: nodeName, counters, services, clock, logger });
}

/** Makes the metrics; what others count of themselves is led there. */
export function openMetrics(
  { configuration, runtime: { clock }, localhost }: Pick<
    DaemonOptions,
    "configuration" | "runtime" | "localhost"
  >,
  { opened, connections, ...readings }:
    & Pick<MetricsOptions, "snapshotAge" | "isStale" | "findings">
    & {
      readonly opened: Opened;
      readonly connections: Connections;
    },
): Metrics {
  const metrics = new Metrics({
    backend: opened.backend.metrics,
    localhost: opened.backend.traits.localhostNodePorts === "listeners" ? localhost : undefined,
    families: familiesBut(opened.missing),
    now: () => clock.now() / 1000,
    version: VERSION,
    commit: COMMIT,
    ...readings,
    connections: connections.isOn ? () => connections.batches("scrape") : undefined,
    process: processUsage(),
    featureGates: knownGates(configuration),
  });
  opened.programs.reportTo((program, failure) => metrics.programFailed(program, failure));
  opened.backend.foreignRules.reportTo(() => metrics.cleanupFailed());
  return metrics;
}
