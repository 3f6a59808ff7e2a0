/**
 * Defines kube-proxy's metrics of iptables mode.
 * @module
 */
import type { Clock } from "../../model/ports/ports.ts";
import { boundedReading } from "../../model/values/timing.ts";
import { FAMILY_NAMES } from "../../model/values/address.ts";
import type { BackendMetrics } from "../backend.ts";
import type { IptablesDataplane } from "./dataplane.ts";
import type { PacketCounts, RuleCount } from "./kernel/counts.ts";

/** The sources of the metrics. */
interface MetricsOptions {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** Returns the dataplane in use. */
  readonly dataplane: () => IptablesDataplane;
}

const PREFIX = "kubeproxy_sync_proxy_rules_iptables";

/**
 * Returns the metrics. kube-proxy counts packets with nfacct; signpost reads rule counters, which need no kernel
 * module.
 */
export function iptablesMetrics({ clock, dataplane }: MetricsOptions): BackendMetrics {
  const rules = (name: string, help: string, read: (count: RuleCount) => number) => ({
    definition: [`${PREFIX}_${name}`, help] as const,
    labels: ["ip_family", "table"],
    read: () =>
      [...dataplane().ruleCounts].map((count) => ({
        labels: { ip_family: FAMILY_NAMES[count.family], table: count.table },
        value: read(count),
      })),
  });
  const readPackets = boundedReading({
    clock,
    refresh: () => dataplane().readPackets(),
    known: () => dataplane().packets,
  });
  const packets = (name: string, help: string, what: keyof PacketCounts) => ({
    definition: [`kubeproxy_iptables_${name}_packets_total`, help] as const,
    labels: [],
    read: async () => [{ labels: {}, value: (await readPackets())[what] }],
  });
  return {
    failures: [
      {
        of: "sync",
        definition: [
          `${PREFIX}_restore_failures_total`,
          "Inputs that iptables-restore refused",
        ],
      },
      {
        of: "partial sync",
        definition: [
          `${PREFIX}_partial_restore_failures_total`,
          "Partial inputs that it refused",
        ],
      },
    ],
    gauges: [
      rules("total", "Rules of signpost", ({ total }) => total),
      rules("last", "Rules written by the last sync", ({ written }) => written),
    ],
    counters: [
      packets(
        "ct_state_invalid_dropped",
        "Packets that were dropped since conntrack takes them for invalid",
        "invalidDropped",
      ),
      packets(
        "localhost_nodeports_accepted",
        "First packets of connections to node ports on the loopback address",
        "localhostNodePorts",
      ),
    ],
  };
}
