/**
 * Lists the node ports that loopback listeners serve, and their endpoints.
 *
 * @module
 */
import {
  type DesiredNode,
  type DesiredServicePort,
  type Destination,
  endpointsFor,
} from "../model/kernel/desired.ts";
import type { Family } from "../model/values/address.ts";

/** The listen address of each family. */
export const LISTEN_ADDRESS: Readonly<Record<Family, string>> = { 4: "127.0.0.1", 6: "::1" };

/**
 * Returns the endpoints of a node port's loopback listener; if empty, there is no listener. As in
 * kube-proxy, policy Local allows only endpoints on this node.
 */
export function localhostEndpoints(
  port: DesiredServicePort,
  node: DesiredNode,
): readonly Destination[] {
  const { family, protocol, nodePort, externalTrafficPolicy } = port;
  const isServed = node.families[family].loopback === "listeners" && protocol === "tcp";
  return isServed && nodePort !== 0 ? endpointsFor(port, externalTrafficPolicy) : [];
}
