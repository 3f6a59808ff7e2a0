/** Translates settings of kube-proxy's ipvs mode into settings of nftables mode, with warnings. */
import type { HashSource, SchedulerName } from "../model/cluster/scheduler.ts";
import { type GivenSettings, type Origin, settingPlace } from "./settings.ts";

interface Successor {
  readonly scheduler: SchedulerName;
  readonly hash?: HashSource;
  /** The difference from IPVS; absent without a difference. */
  readonly differs?: string;
}

const COUNTS: Successor = {
  scheduler: "random",
  differs: "it counts connections, which rules cannot: endpoints are picked at random",
};
const ROUND_ROBIN: Successor = { scheduler: "round-robin" };

/** The kernel's schedulers. kube-proxy gives all endpoints the weight 1, and hashes the source port for `mh`. */
const SUCCESSORS: Readonly<Record<string, Successor>> = {
  rr: ROUND_ROBIN,
  wrr: ROUND_ROBIN,
  sh: { scheduler: "consistent-hash", hash: "source" },
  mh: { scheduler: "consistent-hash", hash: "source-and-port" },
  dh: {
    scheduler: "consistent-hash",
    hash: "source",
    differs: "it sends all connections to an address to one endpoint: the source's address is " +
      "hashed instead",
  },
  lc: COUNTS,
  wlc: COUNTS,
  lblc: COUNTS,
  lblcr: COUNTS,
  sed: COUNTS,
  nq: COUNTS,
  fo: {
    scheduler: "random",
    differs: "it takes the endpoint of the highest weight, and all weigh the same: endpoints are " +
      "picked at random",
  },
  ovf: COUNTS,
  twos: COUNTS,
};

export const IPVS_SCHEDULERS: readonly string[] = Object.keys(SUCCESSORS);

/**
 * Returns the settings that serve ipvs mode. As in kube-proxy, the iptables section sets
 * masquerading, and node ports answer on all addresses but loopback. IPVS timeouts become conntrack
 * timeouts that are not set.
 */
export function ipvsSettings(given: GivenSettings): GivenSettings {
  const successor = successorOf(given);
  const { nodePortAddresses = [] } = given;
  const udp = given["ipvs.udpTimeout"];
  return {
    "nftables.masqueradeAll": given["iptables.masqueradeAll"],
    "nftables.masqueradeBit": given["iptables.masqueradeBit"],
    "nftables.syncPeriod": given["ipvs.syncPeriod"],
    "nftables.minSyncPeriod": given["ipvs.minSyncPeriod"],
    nodePortAddresses: nodePortAddresses.length > 0 ? nodePortAddresses : ["all"],
    "signpost.scheduler": given["signpost.scheduler"] || successor.scheduler,
    "signpost.hash": given["signpost.hash"] || successor.hash,
    "conntrack.tcpEstablishedTimeout": timeout(
      given["conntrack.tcpEstablishedTimeout"],
      given["ipvs.tcpTimeout"],
    ),
    "conntrack.tcpFinWaitTimeout": given["ipvs.tcpFinTimeout"],
    "conntrack.udpTimeout": timeout(given["conntrack.udpTimeout"], udp),
    "conntrack.udpStreamTimeout": timeout(given["conntrack.udpStreamTimeout"], udp),
  };
}

/** Returns the conntrack timeout, or the IPVS timeout. kubeadm writes 0, which leaves the kernel's. */
function timeout(own: number | undefined, ofIpvs: number | undefined): number | undefined {
  return own || ofIpvs || own;
}

/** Returns warnings about ipvs mode, one line each; empty in other modes. */
export function ipvsWarnings(origin: Origin): string[] {
  const { settings } = origin;
  if (settings.mode !== "ipvs") return [];
  const line = `${
    settingPlace(origin, "mode")
  }: ipvs is served by nftables rules, see docs/ipvs.md`;
  const { differs } = successorOf(settings);
  if (differs === undefined || settings["signpost.scheduler"]) return [line];
  return [
    line,
    `${settingPlace(origin, "ipvs.scheduler")}: ${
      settings["ipvs.scheduler"]
    } is not kept: ${differs}`,
  ];
}

function successorOf(given: GivenSettings): Successor {
  return SUCCESSORS[given["ipvs.scheduler"] ?? ""] ?? ROUND_ROBIN;
}
