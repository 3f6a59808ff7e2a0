/**
 * How much a script has to say of a Service, without making it.
 *
 * @module
 */
import type { DesiredServicePort } from "../../../model/kernel/desired.ts";

/** Elements of these ports, roughly: each frontend with each of its endpoints, and source ranges. */
export function weightOf(ports: readonly DesiredServicePort[]): number {
  let weight = 0;
  for (const port of ports) {
    const { clusterIPs, loadBalancerIPs, externalIPs, nodePort, sourceRanges } = port;
    const frontends = clusterIPs.length + loadBalancerIPs.length + externalIPs.length +
      (nodePort === 0 ? 0 : 1);
    const endpoints = port.clusterEndpoints.length + port.localEndpoints.length;
    weight += frontends * (1 + endpoints) + loadBalancerIPs.length * sourceRanges.length;
  }
  return weight;
}
