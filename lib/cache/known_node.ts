/**
 * Keeps the known facts of this node while its object lacks them.
 *
 * @module
 */
import type { Node } from "../model/cluster/objects.ts";

/**
 * Returns the Node, with earlier facts in place of missing ones. A Node that is registered again
 * first lacks addresses, pod CIDRs and zone, while its pods run on. kube-proxy never forgets its
 * Node either (`pkg/proxy/node.go`).
 *
 * @param node the current object; `undefined` if there is none
 * @param known the facts known so far
 */
export function keepKnown(node: Node | undefined, known: Node | undefined): Node | undefined {
  if (node === undefined || known === undefined) return node ?? known;
  const isRegistering = node.addresses.length === 0;
  return {
    ...node,
    addresses: isRegistering ? known.addresses : node.addresses,
    podCIDRs: node.podCIDRs.length === 0 ? known.podCIDRs : node.podCIDRs,
    zone: node.zone === "" && isRegistering ? known.zone : node.zone,
  };
}
