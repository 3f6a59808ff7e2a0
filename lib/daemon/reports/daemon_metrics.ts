/**
 * The metrics of a daemon, and where they are read.
 *
 * @module
 */
import { familiesBut } from "../../backend/ip_families.ts";
import { knownGates } from "../../config/checks/feature_gates.ts";
import { COMMIT } from "../../model/commit.ts";
import { VERSION } from "../../model/version.ts";
import { createMetrics, type Metrics, type MetricsOptions } from "../../observe/metrics/metrics.ts";
import { processUsage } from "../../system/process_usage.ts";
import type { DaemonOptions, Opened } from "../start/options.ts";

/** Makes the metrics; what others count of themselves is led there. */
export function openMetrics(
  { configuration, runtime: { clock } }: Pick<DaemonOptions, "configuration" | "runtime">,
  { opened, ...readings }: Pick<MetricsOptions, "snapshotAge" | "isStale"> & {
    readonly opened: Opened;
  },
): Metrics {
  const metrics = createMetrics({
    backend: opened.backend.metrics,
    families: familiesBut(opened.missing),
    now: () => clock.now() / 1000,
    version: VERSION,
    commit: COMMIT,
    ...readings,
    process: processUsage(),
    featureGates: knownGates(configuration),
  });
  opened.programs.reportTo((program, failure) => metrics.programFailed(program, failure));
  opened.backend.foreignRules.reportTo(() => metrics.cleanupFailed());
  return metrics;
}
