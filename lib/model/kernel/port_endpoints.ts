/**
 * The endpoints of a service port, by what they are for.
 *
 * @module
 */
import type { DesiredServicePort, Destination } from "./desired.ts";
import type { TrafficPolicy } from "../cluster/objects.ts";

/** The endpoints that a policy uses. */
export function endpointsFor(
  port: DesiredServicePort,
  policy: TrafficPolicy,
): readonly Destination[] {
  return policy === "Local" ? port.localEndpoints : port.clusterEndpoints;
}

/** The endpoints that new connections may go to. One that both policies use is there twice. */
export function usedEndpoints(port: DesiredServicePort): readonly Destination[] {
  return [...port.clusterEndpoints, ...port.localEndpoints];
}

/** How many they are, of all these ports. */
export function endpointCount(ports: readonly DesiredServicePort[]): number {
  let count = 0;
  for (const port of ports) count += port.clusterEndpoints.length + port.localEndpoints.length;
  return count;
}

/**
 * The endpoints that a flow may stay on: each one that still serves, whatever the policies and the
 * topology say of new ones. kube-proxy treats UDP as TCP there (`pkg/proxy/conntrack/cleanup.go`).
 */
export function servingEndpoints(
  port: DesiredServicePort,
): readonly Pick<Destination, "address" | "port">[] {
  return [...usedEndpoints(port), ...port.otherServingEndpoints ?? []];
}
