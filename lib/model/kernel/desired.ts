/** Declares the desired state of this node and its changes, independent of nft and iptables. */
import type { Family } from "../values/address.ts";
import type { Acceleration } from "../configuration.ts";
import type { Scheduler } from "../cluster/scheduler.ts";
import type { Protocol, TrafficPolicy } from "../cluster/objects.ts";

export interface Destination {
  readonly address: string;
  readonly port: number;
  /** True if it is on this node. As in kube-proxy, an endpoint without a node name is not local. */
  readonly local: boolean;
  /** True if its own connections may return to it through this node. Such connections are masqueraded. */
  readonly hairpin: boolean;
}

/** The kind of address that a packet uses for a Service. */
export type FrontendType = "clusterIP" | "externalIP" | "loadBalancerIP" | "nodePort";

/** A service port in one family, with only the addresses and node ports that the Service holds. */
export interface DesiredServicePort {
  readonly name: string;
  readonly family: Family;
  readonly protocol: Protocol;
  readonly port: number;
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
  /** 0 without a node port. */
  readonly nodePort: number;
  /** `spec.healthCheckNodePort`, which the node's own firewall must accept (iptables mode). */
  readonly healthCheckNodePort?: number;
  /** Sources that may reach the load-balancer IPs, merged; empty for all. */
  readonly sourceRanges: readonly string[];
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  /** 0 without session affinity. */
  readonly affinitySeconds: number;
  /** The scheduler of new connections; random if absent. With session affinity, of new clients. */
  readonly scheduler?: Scheduler;
  /** The endpoints of the Cluster policy. The position is the slot in the kernel's map. */
  readonly clusterEndpoints: readonly Destination[];
  /** The endpoints of the Local policy; empty without a Local policy. */
  readonly localEndpoints: readonly Destination[];
  /** UDP only: endpoints outside both lists that keep existing flows, as in kube-proxy. */
  readonly otherServingEndpoints?: readonly Pick<Destination, "address" | "port">[];
  /** True if long connections to it take the kernel's fast path; absent if not. */
  readonly accelerated?: true;
  /** True if an endpoint in the cluster can take traffic. Then Local without local endpoints drops, else it rejects. */
  readonly hasEndpoints: boolean;
}

/** The test for packets from pods of this node (KubeProxyConfiguration `detectLocal`). */
export type LocalDetector =
  | { readonly type: "cidr"; readonly cidr: string }
  | { readonly type: "interface"; readonly name: string }
  | { readonly type: "interfacePrefix"; readonly prefix: string };

/** The node's addresses that take node ports (KubeProxyConfiguration `nodePortAddresses`), of one family. */
export type NodePortAddresses =
  | { readonly type: "all" }
  /** The node's local addresses inside these ranges. Without a range, node ports are off. */
  | { readonly type: "cidrs"; readonly cidrs: readonly string[] };

/** The node's facts that the rules of one family depend on. */
export interface DesiredFamily {
  /** `undefined` if local pods cannot be recognized. */
  readonly localDetector: LocalDetector | undefined;
  readonly nodePortAddresses: NodePortAddresses;
  /**
   * Node ports on loopback in nftables mode. `listeners`: user space serves TCP, and rules reject UDP and SCTP.
   * `rejects`: rules reject all three. Absent: rules leave loopback unchanged.
   */
  readonly loopback?: "listeners" | "rejects";
  /** Ranges of cluster IPs, merged and sorted. */
  readonly serviceCIDRs: readonly string[];
  /** The ServiceCIDRs without the known pod ranges. Without a Service, an address in these ranges is unused. */
  readonly guardedCIDRs: readonly string[];
  /** The API server's addresses in `serviceCIDRs`, sorted: the guard of cluster IPs skips them. */
  readonly guardedServers: readonly string[];
}

/** The node's facts that all rules depend on. */
export interface DesiredNode {
  /** The families that rules are written for, IPv4 first. */
  readonly ipFamilies: readonly Family[];
  readonly families: Readonly<Record<Family, DesiredFamily>>;
  readonly masqueradeAll: boolean;
  /** The packet mark for masquerading: one bit, 0x4000 by default. */
  readonly masqueradeMark: number;
  /** True if node ports answer on 127.0.0.1 (iptables mode, IPv4 only). */
  readonly localhostNodePorts: boolean;
  /** True if packets that conntrack finds invalid are accepted (iptables mode; `conntrack.tcpBeLiberal`). */
  readonly tcpBeLiberal: boolean;
  /** True if frontend elements count connections (nftables mode; iptables rules always do). */
  readonly countsConnections: boolean;
  /** The kernel's fast path for long connections; absent if it is off (nftables mode). */
  readonly acceleration?: Pick<Acceleration, "packets" | "interfaces">;
}

/** The complete desired state: the ports of both families by `namespace/name` of the Service. */
export interface DesiredState {
  readonly node: DesiredNode;
  readonly services: ReadonlyMap<string, readonly DesiredServicePort[]>;
}

/** The change of one Service. Without rules, a list is empty. If both are the same list, nothing changes. */
export interface ServiceChange {
  readonly before: readonly DesiredServicePort[];
  readonly after: readonly DesiredServicePort[];
}

/** The change from one desired state to the next. `node` is `undefined` if it did not change. */
export interface StateChange {
  readonly node: { readonly before: DesiredNode; readonly after: DesiredNode } | undefined;
  readonly services: ReadonlyMap<string, ServiceChange>;
}

export function endpointsFor(
  port: DesiredServicePort,
  policy: TrafficPolicy,
): readonly Destination[] {
  return policy === "Local" ? port.localEndpoints : port.clusterEndpoints;
}

/** The reason why a policy does not lead to an endpoint. `no-endpoints` rejects, `no-local-endpoints` drops packets. */
export type NoEndpointsReason = "no-endpoints" | "no-local-endpoints";

export function noEndpointsReason(
  { hasEndpoints }: DesiredServicePort,
  policy: TrafficPolicy,
): NoEndpointsReason {
  return policy === "Local" && hasEndpoints ? "no-local-endpoints" : "no-endpoints";
}

/** Returns true if a service port has a frontend for clients outside of the cluster. */
export function isExternal(
  { externalIPs, loadBalancerIPs, nodePort }: Pick<
    DesiredServicePort,
    "externalIPs" | "loadBalancerIPs" | "nodePort"
  >,
): boolean {
  return nodePort !== 0 || loadBalancerIPs.length + externalIPs.length > 0;
}

export function countWithoutEndpoints({ services }: Pick<DesiredState, "services">): number {
  return services.values().reduce(
    (sum, ports) =>
      ports.length > 0 && ports.every((port) => usedEndpoints(port).length === 0) ? sum + 1 : sum,
    0,
  );
}

/** Returns the endpoints of new connections. An endpoint of both policies is listed twice. */
export function usedEndpoints(port: DesiredServicePort): readonly Destination[] {
  return [...port.clusterEndpoints, ...port.localEndpoints];
}

/** Returns the endpoints that an existing flow may keep, as in kube-proxy (`pkg/proxy/conntrack/cleanup.go`). */
export function servingEndpoints(
  port: DesiredServicePort,
): readonly Pick<Destination, "address" | "port">[] {
  return [...usedEndpoints(port), ...port.otherServingEndpoints ?? []];
}

/** Facts that become set elements or separate rules. */
const VARIABLE: readonly string[] = ["serviceCIDRs", "guardedCIDRs", "guardedServers"];

/** Returns true if the rules change that all Services share. */
export function changesFixedRules({ node }: Pick<StateChange, "node">): boolean {
  return node !== undefined && fixedFacts(node.before) !== fixedFacts(node.after);
}

function fixedFacts(node: DesiredNode): string {
  return JSON.stringify(node, (field, value) => VARIABLE.includes(field) ? undefined : value);
}
