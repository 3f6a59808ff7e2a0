/**
 * Metrics of the listeners that serve node ports on loopback.
 *
 * @module
 */
import type { FamilyCounts, LocalhostListeners } from "../../localhost/listeners.ts";
import { type Family, FAMILY_NAMES } from "../../model/values/address.ts";
import type { MetricFactory } from "./metric_factory.ts";

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
