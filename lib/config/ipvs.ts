/**
 * What kube-proxy's ipvs mode becomes: settings of nftables mode, and what to say of them.
 *
 * @module
 */
import type { HashSource, SchedulerName } from "../model/cluster/scheduler.ts";
import { type Origin, placeOf } from "./origin.ts";
import type { GivenSettings } from "./settings/table.ts";

/** What a scheduler of IPVS becomes. */
interface Successor {
  readonly scheduler: SchedulerName;
  readonly hash?: HashSource;
  /** What is other than with IPVS; none: the same. */
  readonly differs?: string;
}

const COUNTS: Successor = {
  scheduler: "random",
  differs: "it counts connections, which rules cannot: endpoints are picked at random",
};
const ROUND_ROBIN: Successor = { scheduler: "round-robin" };

/** The kernel's schedulers. kube-proxy gives all endpoints the weight 1, and `mh` the source port. */
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

/** The names that the kernel knows. */
export const IPVS_SCHEDULERS: readonly string[] = Object.keys(SUCCESSORS);

/** Whether the kernel knows it; kube-proxy takes empty for `rr`. */
export function isIpvsScheduler(name: string): boolean {
  return name === "" || IPVS_SCHEDULERS.includes(name);
}

/**
 * The settings that ipvs mode is served with. Masquerading is what the iptables section says, and node
 * ports answer on all addresses but loopback, as in kube-proxy. IPVS forgets an idle connection by its
 * own timeouts; connection tracking does that here, unless it has been told a time itself.
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
    "conntrack.udpTimeout": timeout(given["conntrack.udpTimeout"], udp),
    "conntrack.udpStreamTimeout": timeout(given["conntrack.udpStreamTimeout"], udp),
  };
}

/** What connection tracking was told; kubeadm writes 0, which tells it nothing. */
function timeout(told: number | undefined, ofIpvs: number | undefined): number | undefined {
  return told || ofIpvs || told;
}

/** What a person should know of ipvs mode; one line each, none in other modes. */
export function ipvsWarnings(origin: Origin): string[] {
  const { settings } = origin;
  if (settings.mode !== "ipvs") return [];
  const line = `${placeOf(origin, "mode")}: ipvs is served by nftables rules, see docs/ipvs.md`;
  const { differs } = successorOf(settings);
  if (differs === undefined || settings["signpost.scheduler"]) return [line];
  return [
    line,
    `${placeOf(origin, "ipvs.scheduler")}: ${settings["ipvs.scheduler"]} is not kept: ${differs}`,
  ];
}

function successorOf(given: GivenSettings): Successor {
  return SUCCESSORS[given["ipvs.scheduler"] ?? ""] ?? ROUND_ROBIN;
}
