/** Lists the frontends of a service port: its addresses and its node port. */
import {
  type DesiredNode,
  type DesiredServicePort,
  type Destination,
  endpointsFor,
  type FrontendType,
} from "../model/kernel/desired.ts";
import type { TrafficPolicy } from "../model/cluster/objects.ts";
import type { Family } from "../model/values/address.ts";

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

/** The listen address of each family. */
export const LISTEN_ADDRESS: Readonly<Record<Family, string>> = { 4: "127.0.0.1", 6: "::1" };

/** Returns true if listeners serve the node ports of this protocol on loopback. */
export function isServedOnLoopback(
  { family, protocol }: Pick<DesiredServicePort, "family" | "protocol">,
  node: DesiredNode,
): boolean {
  return node.families[family].loopback === "listeners" && protocol === "tcp";
}

/**
 * Returns the endpoints of a node port's loopback listener; if empty, there is no listener. As in kube-proxy,
 * policy Local allows only endpoints on this node.
 */
export function localhostEndpoints(
  port: DesiredServicePort,
  node: DesiredNode,
): readonly Destination[] {
  const { nodePort, externalTrafficPolicy } = port;
  const isServed = nodePort !== 0 && isServedOnLoopback(port, node);
  return isServed ? endpointsFor(port, externalTrafficPolicy) : [];
}
