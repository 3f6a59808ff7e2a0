/**
 * kube-proxy's flags that mean nothing to signpost: accepted, checked, and named in one warning
 * where they are set to something else than their default.
 *
 * @module
 */
import type { FlagGroup } from "./flag.ts";

/** Flags for ipvs, for Go's runtime and logger, and for kube-proxy's client. */
export const UNUSED_FLAGS: FlagGroup = {
  title: "Accepted without effect",
  flags: [
    duration("ipvs-sync-period", "ipvs.syncPeriod"),
    duration("ipvs-min-sync-period", "ipvs.minSyncPeriod"),
    { ...unused("ipvs-scheduler"), sets: ["ipvs.scheduler"] },
    { ...unused("ipvs-exclude-cidrs"), kind: "list", sets: ["ipvs.excludeCIDRs"] },
    { ...unused("ipvs-strict-arp"), kind: "boolean", sets: ["ipvs.strictARP"] },
    duration("ipvs-tcp-timeout", "ipvs.tcpTimeout"),
    duration("ipvs-tcpfin-timeout", "ipvs.tcpFinTimeout"),
    duration("ipvs-udp-timeout", "ipvs.udpTimeout"),
    { ...unused("profiling"), kind: "boolean", sets: ["enableProfiling"] },
    { ...unused("show-hidden-metrics-for-version"), sets: ["showHiddenMetricsForVersion"] },
    { ...unused("kube-api-burst"), kind: "integer", sets: ["clientConnection.burst"] },
    { ...unused("kube-api-qps"), kind: "number", sets: ["clientConnection.qps"] },
    duration("log-flush-frequency", "logging.flushFrequency"),
    {
      ...unused("log-text-split-stream"),
      kind: "boolean",
      sets: ["logging.options.text.splitStream"],
    },
    { ...unused("log-text-info-buffer-size"), sets: ["logging.options.text.infoBufferSize"] },
    {
      ...unused("log-json-split-stream"),
      kind: "boolean",
      sets: ["logging.options.json.splitStream"],
    },
    { ...unused("log-json-info-buffer-size"), sets: ["logging.options.json.infoBufferSize"] },
    unused("vmodule"),
    unused("boot-id-file"),
    unused("machine-id-file"),
  ],
};

/** A flag that has no setting either. */
function unused(name: string): FlagGroup["flags"][number] {
  return { name, kind: "text", value: "VALUE", sets: [], help: "No effect." };
}

function duration(name: string, path: string): FlagGroup["flags"][number] {
  return { ...unused(name), value: "DURATION", sets: [path] };
}
