/** A daemon's counts of its work, for tests of what shows them. */
import type { MetricsSources, Observed } from "../../../lib/observe/metrics/metrics.ts";
import type { SyncProgress } from "../../../lib/sync/reports.ts";
import { START } from "../../support/clock_and_log.ts";

/** A loop that has done nothing. */
export const NO_PROGRESS: SyncProgress = {
  waitingSince: undefined,
  moved: -Infinity,
  failures: 0,
  queued: 0,
  synced: 0,
};

/** A daemon that has seen nothing. */
export const NOTHING_SEEN: Observed = {
  changes: { EndpointSlice: { total: 0, pending: 0 }, Service: { total: 0, pending: 0 } },
  watches: new Map(),
  driftRepairs: 0,
  serverVersion: undefined,
};

/** A watch of Services that has listed them again. */
export const WATCHES: Observed["watches"] = new Map([["Service", {
  kind: "Service",
  state: "watching",
  resourceVersion: "1",
  lastEvent: START,
  lists: 2,
  lastError: "",
  failingSince: 0,
  isRefused: false,
}]]);

/** The sources of metrics of a daemon that has done nothing. */
export const NO_WORK: MetricsSources = {
  observed: NOTHING_SEEN,
  sync: () => NO_PROGRESS,
  desired: { noLocal: () => ({ internal: 0, external: 0 }), conflictCount: 0 },
  featureGates: [],
  process: {
    memory: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0 }),
    cpu: () => 0,
    started: 0,
    platform: "linux/amd64",
  },
  snapshotAge: () => undefined,
  isStale: () => false,
  findings: () => [],
  refused: () => [],
};
