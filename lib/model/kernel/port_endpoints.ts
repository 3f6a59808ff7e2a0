/**
 * The endpoints of a service port, by purpose.
 *
 * @module
 */
import type { DesiredServicePort, Destination } from "./desired.ts";
import type { TrafficPolicy } from "../cluster/objects.ts";

/** Returns the endpoints that a policy uses. */
export function endpointsFor(
  port: DesiredServicePort,
  policy: TrafficPolicy,
): readonly Destination[] {
  return policy === "Local" ? port.localEndpoints : port.clusterEndpoints;
}

/** Returns the endpoints of new connections. An endpoint of both policies is listed twice. */
export function usedEndpoints(port: DesiredServicePort): readonly Destination[] {
  return [...port.clusterEndpoints, ...port.localEndpoints];
}

/** Counts the used endpoints of all these ports. */
export function endpointCount(ports: readonly DesiredServicePort[]): number {
  let count = 0;
  for (const port of ports) count += port.clusterEndpoints.length + port.localEndpoints.length;
  return count;
}

/**
 * Returns the endpoints that an existing flow may keep: all that serve, as in kube-proxy
 * (`pkg/proxy/conntrack/cleanup.go`).
 */
export function servingEndpoints(
  port: DesiredServicePort,
): readonly Pick<Destination, "address" | "port">[] {
  return [...usedEndpoints(port), ...port.otherServingEndpoints ?? []];
}
