/**
 * Flags that shape the rules.
 *
 * kube-proxy's by their own names and meanings (cmd/kube-proxy/app/options.go), and
 * `--nftables-masquerade-bit` and `--full-sync-period`.
 *
 * @module
 */
import type { FlagGroup } from "./flag.ts";

/** What the rules look like and when they are written. */
export const RULE_FLAGS: FlagGroup = {
  title: "Rules",
  flags: [
    {
      name: "proxy-mode",
      kind: "text",
      value: "MODE",
      sets: ["mode"],
      choices: ["nftables", "iptables"],
      help: "nftables or iptables; empty: nftables where kernel and nft can do it.",
    },
    {
      name: "cluster-cidr",
      kind: "text",
      value: "CIDRS",
      sets: ["clusterCIDR"],
      help: "The range of all pods; for dual-stack, one of each family with a comma.",
    },
    {
      name: "detect-local-mode",
      kind: "text",
      value: "MODE",
      sets: ["detectLocalMode"],
      choices: ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"],
      help: "How pods of this node are recognised. Default ClusterCIDR.",
    },
    {
      name: "pod-bridge-interface",
      kind: "text",
      value: "NAME",
      sets: ["detectLocal.bridgeInterface"],
      help: "The pods' bridge, for --detect-local-mode BridgeInterface.",
    },
    {
      name: "pod-interface-name-prefix",
      kind: "text",
      value: "PREFIX",
      sets: ["detectLocal.interfaceNamePrefix"],
      help: "How the pods' interfaces begin, for --detect-local-mode InterfaceNamePrefix.",
    },
    {
      name: "nodeport-addresses",
      kind: "list",
      value: "CIDRS",
      sets: ["nodePortAddresses"],
      help:
        "Where node ports answer: CIDRs, or primary. Default: primary (nftables), all (iptables).",
    },
    {
      name: "masquerade-all",
      kind: "boolean",
      sets: ["nftables.masqueradeAll", "iptables.masqueradeAll"],
      help: "Masquerade all traffic to cluster IPs.",
    },
    {
      name: "nftables-masquerade-bit",
      kind: "integer",
      value: "BIT",
      sets: ["nftables.masqueradeBit"],
      help: "The bit of the packet mark in nftables mode, 0 to 31. Default 14.",
    },
    {
      name: "iptables-masquerade-bit",
      kind: "integer",
      value: "BIT",
      sets: ["iptables.masqueradeBit"],
      help: "The same in iptables mode, and in both where no mode is set.",
    },
    {
      name: "iptables-localhost-nodeports",
      kind: "boolean",
      sets: ["iptables.localhostNodePorts"],
      help: "Node ports answer on 127.0.0.1 (iptables mode, IPv4). Default true.",
    },
    {
      name: "iptables-sync-period",
      kind: "text",
      value: "DURATION",
      sets: ["iptables.syncPeriod", "nftables.syncPeriod"],
      help: "Time between checks of the whole, in every mode. Default 30s.",
    },
    {
      name: "iptables-min-sync-period",
      kind: "text",
      value: "DURATION",
      sets: ["iptables.minSyncPeriod", "nftables.minSyncPeriod"],
      help: "How long changes are gathered before they are written, in every mode. Default 1s.",
    },
    {
      name: "full-sync-period",
      kind: "text",
      value: "DURATION",
      sets: ["signpost.fullSyncPeriod"],
      help: "Time between replacements of all rules. Default 1h.",
    },
    {
      name: "feature-gates",
      kind: "map",
      value: "NAME=BOOL",
      sets: ["featureGates"],
      help: "AllowServiceExternalIPs=false ignores externalIPs; other gates have no effect.",
    },
  ],
};
