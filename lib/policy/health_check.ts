/**
 * What the health-check node ports tell load balancers.
 *
 * @module
 */
import type { EndpointSlice } from "../model/objects.ts";

/** Number of distinct addresses of ready endpoints on this node, as kube-proxy counts them. */
export function countReadyLocalEndpoints(
  slices: Iterable<EndpointSlice>,
  nodeName: string,
): number {
  const addresses = new Set<string>();
  for (const { endpoints } of slices) {
    for (const { address, ready, nodeName: node } of endpoints) {
      if (ready && node === nodeName) addresses.add(address);
    }
  }
  return addresses.size;
}
