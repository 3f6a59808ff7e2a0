/**
 * What is known of this node, whether or not its object is there.
 *
 * @module
 */
import type { Node } from "../model/cluster/objects.ts";

/**
 * The Node with what was known before where it tells less. A Node may be deleted and registered again
 * while its pods run on, and has no addresses, pod CIDRs and zone at first. kube-proxy never forgets
 * its Node either (`pkg/proxy/node.go`).
 *
 * @param node what the source has; `undefined`: nothing
 * @param known what was known up to now
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
