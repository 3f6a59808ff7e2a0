/** Declares every kind of node finding, and makes findings. `docs/findings.md` lists this table. */
import type { Finding, Severity } from "../model/status.ts";

export interface FindingKind {
  readonly severity: Severity;
  /** Says what is wrong, as one sentence. */
  readonly summary: string;
  /** Says what to do, with the line to type if there is one. */
  readonly remedy: string;
  /** The reason of an Event about each affected Service. Absent: no Event is sent. */
  readonly event?: string;
}

/** kube-proxy's reason for this Event. */
const HEALTH_CHECK_FAILED = "FailedToStartServiceHealthcheck";

/** The kinds by their id. An id is stable: metrics and alert rules name it. */
export const CATALOG = {
  "node-address-unknown": {
    severity: "warning",
    summary: "No address of this node is known: node ports answer on all addresses.",
    remedy:
      "Check that a Node of this name exists (--hostname-override), or set nodePortAddresses (--nodeport-addresses).",
  },
  "node-unknown": {
    severity: "warning",
    summary: "No Node has this node's name: its zone and addresses are not known.",
    remedy: "Set --hostname-override to the Node's name.",
  },
  "node-address-elsewhere": {
    severity: "warning",
    summary:
      "No interface has an address of this node's Node, or of nodePortAddresses: node ports may not answer.",
    remedy:
      "Set --hostname-override if this is not the machine of that Node. Behind 1:1 NAT, set nodePortAddresses (--nodeport-addresses) to the interfaces' addresses.",
  },
  "rules-cannot-be-written": {
    severity: "error",
    summary: "signpost cannot write rules on this node.",
    remedy: "Fix what the finding names: nft or iptables, a kernel module, or the rights of root.",
  },
  "api-server-unreachable": {
    severity: "error",
    summary: "signpost cannot reach the API server, so it learns of no changes.",
    remedy: "Check the kubeconfig (--kubeconfig), its server address, and the network to it.",
  },
  "api-server-refuses": {
    severity: "error",
    summary: "The API server does not let signpost read a kind of objects.",
    remedy:
      "Apply the role of examples/install/rbac.yaml, and check the kubeconfig's token or certificate.",
  },
  "api-server-slow": {
    severity: "warning",
    summary: "The API server takes longer than three seconds to answer.",
    remedy: "Look at the load of the API server and of this node.",
  },
  "objects-without-memory": {
    severity: "error",
    summary:
      "The objects of a namespace or kind take more memory than signpost gives them. Some are refused, and keep their last good state.",
    remedy: "Delete objects, or spread them over namespaces.",
  },
  "optional-objects-refused": {
    severity: "info",
    summary:
      "signpost may not read ServiceCIDRs, or there are none. Packets to unused cluster IPs are not dropped.",
    remedy:
      "Before Kubernetes 1.33, do nothing. From 1.33 on, apply the role of examples/install/rbac.yaml.",
  },
  "api-access-unsafe": {
    severity: "warning",
    summary:
      "Another machine can read the credentials, or change this node's rules, on the way to the API server.",
    remedy: "Use https and set certificate-authority in the kubeconfig.",
  },
  "mode-is-open": {
    severity: "info",
    summary:
      "No mode is set, and signpost uses nftables: node ports and TCP segments outside the window are handled differently from kube-proxy's default mode.",
    remedy:
      "Set mode (--proxy-mode) to nftables to keep it, or to iptables for kube-proxy's default. With nftables, nodePortAddresses: [all] opens all addresses but loopback, and conntrack.tcpBeLiberal keeps connections with such segments.",
  },
  "mode-without-need": {
    severity: "info",
    summary:
      "iptables mode is set, and nftables works here. kubeadm 1.37 writes this mode into its ConfigMap.",
    remedy:
      "Set mode: nftables (--proxy-mode=nftables), such as in the ConfigMap kube-proxy in kube-system.",
  },
  "nftables-unusable": {
    severity: "warning",
    summary: "No mode is set, and signpost uses iptables because nftables does not work.",
    remedy:
      "Fix what the finding names, or set mode: iptables (--proxy-mode=iptables) to keep iptables.",
  },
  "iptables-variants-mixed": {
    severity: "warning",
    summary: "iptables-nft and iptables-legacy both have rules, and neither shows the other's.",
    remedy: "Let all programs of the node use one variant (update-alternatives --config iptables).",
  },
  "ip-family-missing": {
    severity: "info",
    summary: "The kernel lacks an IP family, and signpost writes no rules for it.",
    remedy:
      "If you need Services of this family, start the kernel with IPv6. Otherwise do nothing.",
  },
  "ip-family-not-written": {
    severity: "warning",
    summary: "signpost writes no rules for an IP family that the kernel has.",
    remedy: "Install the program that the finding names.",
  },
  "connections-not-counted": {
    severity: "info",
    summary: "nft or the kernel refuses counters on elements: connections are not counted.",
    remedy: "Use the nft or kernel that the finding names, or set --service-metrics=false.",
  },
  "acceleration-unavailable": {
    severity: "warning",
    summary: "signpost.acceleration is set, but connections do not take the fast path.",
    remedy:
      "Load the modules that the finding names, use nftables mode, or unset signpost.acceleration (--acceleration-interfaces).",
  },
  "rules-changed": {
    severity: "error",
    summary: "Another program has changed signpost's rules. Packets may be lost until the repair.",
    remedy:
      "signpost repairs them now. If they change again, stop the program that flushes or restores rules, such as netfilter-persistent.",
  },
  "another-proxy": {
    severity: "warning",
    summary: "Another proxy writes its rules here, or its rules came back.",
    remedy:
      "Stop it, such as the DaemonSet kube-proxy in kube-system. signpost then removes its rules.",
  },
  "route-localnet-off": {
    severity: "warning",
    summary: "Node ports do not answer on 127.0.0.1, because a kernel setting is off.",
    remedy:
      "Run sysctl -w net.ipv4.conf.all.route_localnet=1, or signpost --init-only as full root, or set iptables.localhostNodePorts to false.",
  },
  "route-localnet-on": {
    severity: "info",
    summary:
      "The kernel accepts packets to 127.0.0.0/8 from other machines. Only signpost's rules drop them.",
    remedy: "If nothing else needs it, run sysctl -w net.ipv4.conf.all.route_localnet=0.",
  },
  "forwarding-off": {
    severity: "error",
    summary: "The kernel does not forward packets, so only this node itself reaches pods.",
    remedy: "Run sysctl -w net.ipv4.ip_forward=1, or net.ipv6.conf.all.forwarding=1.",
  },
  "bridge-filter-off": {
    severity: "error",
    summary:
      "Packets between pods on a bridge do not pass connection tracking: answers of Services are lost.",
    remedy:
      "Run modprobe br_netfilter, then sysctl -w net.bridge.bridge-nf-call-iptables=1 and net.bridge.bridge-nf-call-ip6tables=1.",
  },
  "kernel-setting-refused": {
    severity: "warning",
    summary: "signpost could not change a kernel setting of connection tracking.",
    remedy:
      "Set it with sysctl -w, or run signpost --init-only as full root. Or set conntrack.maxPerCore and timeouts to 0.",
  },
  "conntrack-table-almost-full": {
    severity: "warning",
    summary: "The table of connection tracking is almost full. A full table drops new connections.",
    remedy:
      "Raise conntrack.maxPerCore (--conntrack-max-per-core), or find the program with so many connections.",
  },
  "own-port-taken": {
    severity: "error",
    summary: "signpost cannot open its port for health or metrics. It tries again every 5 seconds.",
    remedy:
      "End the program that has the port (ss -ltnp), or set healthzBindAddress (--healthz-bind-address) or metricsBindAddress (--metrics-bind-address).",
  },
  "health-check-port-taken": {
    severity: "warning",
    summary:
      "Another program listens on a health-check node port: load balancers do not get this node's answer.",
    remedy: "Stop that program (ss -ltnp), or give the Service another spec.healthCheckNodePort.",
    event: HEALTH_CHECK_FAILED,
  },
  "health-check-port-is-node-port": {
    severity: "warning",
    summary:
      "A health-check node port is also another Service's node port, whose endpoints answer the load balancers.",
    remedy: "Give one of the Services another port: spec.healthCheckNodePort or nodePort.",
    event: HEALTH_CHECK_FAILED,
  },
  "node-ports-on-all-addresses": {
    severity: "info",
    summary: "Node ports answer on all addresses of this node.",
    remedy:
      "nodePortAddresses: [primary] (--nodeport-addresses=primary) opens the Node's own address alone.",
  },
  "node-ports-of-one-family": {
    severity: "warning",
    summary:
      "nodePortAddresses has ranges of one IP family: node ports of the other answer on all addresses.",
    remedy: "Add a range of the other family to nodePortAddresses (--nodeport-addresses).",
  },
  "setting-of-other-family": {
    severity: "warning",
    summary: "A setting has no address of this node's first IP family.",
    remedy: "Give it an address or range of that family.",
  },
  "pod-detection-of-other-family": {
    severity: "warning",
    summary:
      "The ranges for the detection of pods are of another IP family than this node: no pod is detected. kube-proxy refuses to start.",
    remedy:
      "Set clusterCIDR (--cluster-cidr) to the ranges of all pods, the node's IP family first.",
  },
  "pods-not-detected": {
    severity: "warning",
    summary:
      "No setting says which senders are pods: traffic from outside to cluster IPs is not masqueraded, and answers may get lost.",
    remedy:
      "Set clusterCIDR (--cluster-cidr) to the range of all pods, or another detectLocalMode.",
  },
  "service-cidr-overlaps": {
    severity: "warning",
    summary:
      "A ServiceCIDR contains addresses of pods, nodes or the API server. Services may get them, and nftables mode may drop new connections to them.",
    remedy:
      "Add another ServiceCIDR that nothing else uses, move the Services there, and delete this one.",
  },
  "api-server-is-cluster-ip": {
    severity: "error",
    summary: "The API server's address here is a cluster IP. After a reboot, no rule leads to it.",
    remedy:
      "Set --master or a kubeconfig with the address of a control-plane node, or of the load balancer in front of these nodes.",
  },
  "pod-outside-detected-range": {
    severity: "warning",
    summary:
      "A pod of this node is outside the range of pods. Its traffic counts as traffic from outside.",
    remedy: "Set clusterCIDR (--cluster-cidr) to the range of all pods.",
  },
  "pod-cidr-outside-detected-range": {
    severity: "warning",
    summary:
      "The Node's podCIDR is outside the range of pods. Its pods' traffic counts as traffic from outside.",
    remedy: "Set clusterCIDR (--cluster-cidr) to the range of all pods.",
  },
  "hash-without-liberal-conntrack": {
    severity: "warning",
    summary:
      "A Service with external addresses uses a hash. Connections that routers move between nodes become invalid.",
    remedy:
      "Set conntrack.tcpBeLiberal (--conntrack-tcp-be-liberal) if routers move TCP connections.",
  },
  "nft-crashes": {
    severity: "error",
    summary:
      "nft before 1.1.3 crashes on sets that a newer nft wrote for another program: signpost can write no rules.",
    remedy:
      "Install nft 1.1.3 or newer (Debian 13), remove that table with the nft that wrote it, or use --proxy-mode iptables.",
  },
  "localhost-node-port-taken": {
    severity: "warning",
    summary: "signpost cannot open a node port on loopback. It tries again every 5 seconds.",
    remedy:
      "End the program that has the port (ss -ltnp), or leave localhost out of nodePortAddresses.",
  },
  "nat-chain-before-ours": {
    severity: "warning",
    summary:
      "Another program's nat chain runs before signpost's, and may send packets to Services elsewhere.",
    remedy: "Give that chain the priority dstnat (-100) or higher.",
  },
  "published-port-is-node-port": {
    severity: "warning",
    summary:
      "A published port of a container is also a node port, or a port of a Service's address. In nftables mode the Service gets the connections.",
    remedy: "Publish the container at another port, or change the Service's port.",
  },
  "firewall-drops-services": {
    severity: "warning",
    summary:
      "A firewall here drops connections that Services send to endpoints. signpost's rules cannot override it.",
    remedy:
      "Add a rule to that chain: iptables -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT, or in nft: ct status dnat accept.",
  },
  "firewall-drops-health-checks": {
    severity: "warning",
    summary:
      "A firewall here drops connections to health-check node ports: load balancers see an unhealthy node.",
    remedy:
      "Add a rule to that chain: iptables -I INPUT -p tcp --dport PORT -j ACCEPT, or in nft: tcp dport PORT accept.",
  },
  "firewall-may-drop": {
    severity: "info",
    summary:
      "A firewall here drops by default. signpost cannot tell if its rules accept what Services need.",
    remedy: "Check that its rules accept the connections that the finding names.",
  },
  "reject-comes-late": {
    severity: "warning",
    summary:
      "Another program accepts packets of pods before iptables mode rejects them: connections to Services without endpoints time out.",
    remedy: "Use nftables mode (--proxy-mode=nftables).",
  },
} as const satisfies Record<string, FindingKind>;

/** Makes a finding of a declared kind. @param fields without `remedy`, the finding has its kind's */
export function finding(
  id: keyof typeof CATALOG,
  { what, where, remedy = CATALOG[id].remedy, services = [], drops }:
    & Pick<Finding, "what" | "where">
    & Partial<Pick<Finding, "remedy" | "services" | "drops">>,
): Finding {
  const { severity } = CATALOG[id];
  return { id, severity, what, where, remedy, services, ...drops && { drops } };
}
