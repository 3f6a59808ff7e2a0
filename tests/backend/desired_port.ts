/**
 * A desired service port with every kind of frontend.
 *
 * @module
 */
import type { DesiredServicePort } from "../../lib/model/kernel/desired.ts";

/** @param changes what is other than usual */
export function desiredPort(changes: Partial<DesiredServicePort> = {}): DesiredServicePort {
  return {
    name: "shop/web:http",
    family: 4,
    protocol: "tcp",
    port: 80,
    clusterIPs: ["10.96.0.10"],
    externalIPs: ["198.51.100.7"],
    loadBalancerIPs: ["192.0.2.10"],
    nodePort: 30080,
    sourceRanges: [],
    internalTrafficPolicy: "Cluster",
    externalTrafficPolicy: "Cluster",
    affinitySeconds: 0,
    clusterEndpoints: [],
    localEndpoints: [],
    hasEndpoints: true,
    ...changes,
  };
}
