/** Defines the settings of the rules, most of them kube-proxy's (cmd/kube-proxy/app/options.go). */
import {
  type AskedMode,
  DETECT_LOCAL_MODES,
  type DetectLocalMode,
  MODES,
} from "../../model/configuration.ts";
import { boolean, clusterCidrs, integer, interfaceName, nodePortAddress } from "../file/readers.ts";
import { choice, duration, list, minSyncPeriod, switches, value } from "./setting.ts";

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;

export const RULE_GROUP = {
  title: "Rules",
  settings: {
    mode: choice<AskedMode>([...MODES, "ipvs"], "", {
      flag: "proxy-mode",
      value: "MODE",
      help: "nftables, iptables, or ipvs, which nftables serves; empty: nftables if it works here.",
    }),
    clusterCIDR: value<readonly string[]>(clusterCidrs, [], {
      flag: "cluster-cidr",
      value: "CIDRS",
      help: "The range of all pods; for dual-stack, one of each family with a comma.",
    }),
    detectLocalMode: choice<DetectLocalMode>(DETECT_LOCAL_MODES, "ClusterCIDR", {
      flag: "detect-local-mode",
      value: "MODE",
      help: "How pods of this node are recognised.",
    }),
    "detectLocal.bridgeInterface": value(interfaceName, "", {
      flag: "pod-bridge-interface",
      value: "NAME",
      help: "The pods' bridge, for --detect-local-mode BridgeInterface.",
    }),
    "detectLocal.interfaceNamePrefix": value(interfaceName, "", {
      flag: "pod-interface-name-prefix",
      value: "PREFIX",
      help: "Prefix of the pods' interfaces, for --detect-local-mode InterfaceNamePrefix.",
    }),
    nodePortAddresses: list(nodePortAddress, {
      flag: "nodeport-addresses",
      value: "CIDRS",
      help:
        "Addresses of node ports: CIDRs, primary, localhost, all. Default: primary (nftables), all (iptables).",
    }),
    "nftables.masqueradeAll": value(boolean, false, {
      flag: "masquerade-all",
      help: "Masquerade all traffic to cluster IPs.",
      alsoSets: ["iptables.masqueradeAll"],
    }),
    "iptables.masqueradeAll": value(boolean, false),
    "nftables.masqueradeBit": value(integer(0, 31), 14, {
      flag: "nftables-masquerade-bit",
      value: "BIT",
      help: "The bit of the packet mark in nftables mode, 0 to 31.",
    }),
    "iptables.masqueradeBit": value(integer(0, 31), 14, {
      flag: "iptables-masquerade-bit",
      value: "BIT",
      help: "The same in iptables mode, and in both if no mode is set.",
    }),
    "iptables.localhostNodePorts": value(boolean, true, {
      flag: "iptables-localhost-nodeports",
      help: "Node ports answer on 127.0.0.1 (iptables mode, IPv4).",
    }),
    "iptables.syncPeriod": duration(30 * SECOND, {
      empty: "in the file",
      flag: "iptables-sync-period",
      help: "Time between full checks of the rules, in every mode but ipvs.",
      alsoSets: ["nftables.syncPeriod"],
    }),
    "nftables.syncPeriod": duration(30 * SECOND, { empty: "in the file" }),
    "iptables.minSyncPeriod": minSyncPeriod({
      flag: "iptables-min-sync-period",
      help: "Shortest pause between two syncs, in every mode but ipvs; adaptive: up to 1s.",
      alsoSets: ["nftables.minSyncPeriod"],
    }),
    "nftables.minSyncPeriod": minSyncPeriod(),
    "signpost.fullSyncPeriod": duration(HOUR, {
      inFile: false,
      flag: "full-sync-period",
      help: "Time between replacements of all rules.",
    }),
    "signpost.ipvsGracePeriod": duration(300 * SECOND, {
      inFile: false,
      flag: "ipvs-grace-period",
      kind: "text",
      help: "How long connections of kube-proxy's ipvs mode may live on.",
    }),
    featureGates: switches({
      flag: "feature-gates",
      value: "NAME=BOOL",
      help:
        "AllowServiceExternalIPs=false writes no rules for externalIPs, KubeProxyIPVS=false refuses mode ipvs; others have no effect.",
    }),
  },
};
