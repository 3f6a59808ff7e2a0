/**
 * The frontends of a service port: its addresses and its node port.
 *
 * @module
 */
import type { DesiredServicePort, FrontendType } from "../model/kernel/desired.ts";
import type { TrafficPolicy } from "../model/cluster/objects.ts";

/** One address, or the node port, of a service port. */
export interface Frontend {
  readonly type: FrontendType;
  /** Canonical; `undefined` for a node port, which uses all of the node's addresses. */
  readonly address: string | undefined;
  readonly port: number;
}

/** A frontend and the service port that holds it. */
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

/** Returns the policy for traffic to a frontend. */
export function policyOf(servicePort: DesiredServicePort, { type }: Frontend): TrafficPolicy {
  return type === "clusterIP"
    ? servicePort.internalTrafficPolicy
    : servicePort.externalTrafficPolicy;
}

/** Returns whether a service port has a frontend for clients outside of the cluster. */
export function isExternal(
  { externalIPs, loadBalancerIPs, nodePort }: DesiredServicePort,
): boolean {
  return nodePort !== 0 || loadBalancerIPs.length + externalIPs.length > 0;
}
