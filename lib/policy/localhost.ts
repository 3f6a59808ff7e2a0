/**
 * Says which node ports listeners on loopback serve, and where they connect to.
 *
 * @module
 */
import type { DesiredNode, DesiredServicePort, Destination } from "../model/kernel/desired.ts";
import { endpointsFor } from "../model/kernel/port_endpoints.ts";
import type { Family } from "../model/values/address.ts";

/** The address of each family that listeners have. */
export const LISTEN_ADDRESS: Readonly<Record<Family, string>> = { 4: "127.0.0.1", 6: "::1" };

/**
 * Returns the endpoints that the listener of a node port uses. None: there is no listener. The external traffic
 * policy Local allows endpoints on this node alone, as in kube-proxy, though the node itself is the client.
 */
export function localhostEndpoints(
  port: DesiredServicePort,
  node: DesiredNode,
): readonly Destination[] {
  const { family, protocol, nodePort, externalTrafficPolicy } = port;
  const isServed = node.families[family].loopback === "listeners" && protocol === "tcp";
  return isServed && nodePort !== 0 ? endpointsFor(port, externalTrafficPolicy) : [];
}
