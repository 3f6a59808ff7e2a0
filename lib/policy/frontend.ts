/** Lists the frontends of a service port: its addresses and its node port. */
import {
  type DesiredNode,
  type DesiredServicePort,
  type Destination,
  endpointsFor,
  type FrontendType,
  type NoEndpointsReason,
  noEndpointsReason,
} from "../model/kernel/desired.ts";
import type { TrafficPolicy } from "../model/cluster/objects.ts";
import { cidrContains, type Family } from "../model/values/address.ts";

export interface Frontend {
  readonly type: FrontendType;
  /** Canonical; `undefined` for a node port, which uses all of the node's addresses. */
  readonly address: string | undefined;
  readonly port: number;
}

export interface Match {
  readonly servicePort: DesiredServicePort;
  readonly frontend: Frontend;
}

/** Returns all frontends of a service port, cluster IPs first. */
export function frontendsOf(servicePort: DesiredServicePort): Frontend[] {
  const { clusterIPs, externalIPs, loadBalancerIPs, nodePort, port } = servicePort;
  const at = (type: FrontendType) => (address: string) => ({ type, address, port });
  return [
    ...clusterIPs.map(at("clusterIP")),
    ...loadBalancerIPs.map(at("loadBalancerIP")),
    ...externalIPs.map(at("externalIP")),
    ...nodePort === 0 ? [] : [{ type: "nodePort" as const, address: undefined, port: nodePort }],
  ];
}

export function policyOf(servicePort: DesiredServicePort, { type }: Frontend): TrafficPolicy {
  return type === "clusterIP"
    ? servicePort.internalTrafficPolicy
    : servicePort.externalTrafficPolicy;
}

/** The decision about a connection to a frontend, and the reason for it. */
type Decision =
  /** The source is outside of the source ranges: the packet is dropped. */
  | { readonly reason: "source-range"; readonly ranges: readonly string[] }
  | { readonly reason: NoEndpointsReason; readonly policy: TrafficPolicy }
  | {
    /** `short-circuit`: pods and this node use the cluster's endpoints, in spite of the policy Local. */
    readonly reason: "policy" | "short-circuit";
    readonly policy: TrafficPolicy;
    readonly endpoints: readonly Destination[];
  };

interface Client {
  /** Canonical; `undefined` if unknown, so that source ranges are not checked. */
  readonly source: string | undefined;
  /** True for this node, and for pods that the rules recognise. */
  readonly isLocal: boolean;
}

/** Decides about a connection to a frontend, as the rules do. */
export function decide({ servicePort, frontend }: Match, { source, isLocal }: Client): Decision {
  const ranges = rangesOf({ servicePort, frontend });
  if (
    source !== undefined && ranges.length > 0 && !ranges.some((each) => cidrContains(each, source))
  ) {
    return { reason: "source-range", ranges };
  }
  const configured = policyOf(servicePort, frontend);
  const { clusterEndpoints } = servicePort;
  if (
    configured === "Local" && frontend.type !== "clusterIP" && isLocal &&
    clusterEndpoints.length > 0
  ) {
    return { reason: "short-circuit", policy: "Cluster", endpoints: clusterEndpoints };
  }
  const endpoints = endpointsFor(servicePort, configured);
  return endpoints.length > 0
    ? { reason: "policy", policy: configured, endpoints }
    : { reason: noEndpointsReason(servicePort, configured), policy: configured };
}

/** Returns the sources that may connect to a frontend; empty for all. */
export function rangesOf({ servicePort, frontend }: Match): readonly string[] {
  return frontend.type === "loadBalancerIP" ? servicePort.sourceRanges : [];
}

export const LISTEN_ADDRESS: Readonly<Record<Family, string>> = { 4: "127.0.0.1", 6: "::1" };

/** Returns true if listeners serve the node ports of this protocol on loopback. */
export function isServedOnLoopback(
  { family, protocol }: Pick<DesiredServicePort, "family" | "protocol">,
  node: DesiredNode,
): boolean {
  return node.families[family].loopback === "listeners" && protocol === "tcp";
}

/** Returns the endpoints of a node port's loopback listener, if it has one. As in kube-proxy, Local means this node. */
export function localhostEndpoints(
  port: DesiredServicePort,
  node: DesiredNode,
): readonly Destination[] {
  const { nodePort, externalTrafficPolicy } = port;
  const isServed = nodePort !== 0 && isServedOnLoopback(port, node);
  return isServed ? endpointsFor(port, externalTrafficPolicy) : [];
}
