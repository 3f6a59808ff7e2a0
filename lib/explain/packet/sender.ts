/**
 * Who sends a packet, told from its source address.
 *
 * @module
 */
import type { Sender } from "../../config/command.ts";
import { cidrContains, familyOf } from "../../model/values/address.ts";
import type { DesiredNode } from "../../model/kernel/desired.ts";
import type { EndpointSlice, Node } from "../../model/cluster/objects.ts";

/** What is known of this node's addresses. */
export interface SenderOptions {
  /** All addresses of this node's interfaces. */
  readonly ownAddresses: readonly string[];
  readonly node: Node | undefined;
  readonly desired: DesiredNode;
  readonly slices: Iterable<EndpointSlice>;
  readonly nodeName: string;
}

/** Who it is, and how that is known. */
export interface SenderGuess {
  readonly sender: Sender;
  readonly reason: string;
}

/** Tells the sender: this node, a pod, or any other host. */
export function senderOf(source: string, options: SenderOptions): SenderGuess {
  const { ownAddresses, node, desired, slices, nodeName } = options;
  if (ownAddresses.includes(source) || node?.addresses.includes(source)) {
    return { sender: "node", reason: `${source} is an address of this node` };
  }
  const podCIDR = node?.podCIDRs.find((cidr) => cidrContains(cidr, source));
  if (podCIDR) return { sender: "pod", reason: `${source} is in this node's pod CIDR ${podCIDR}` };
  const { localDetector } = desired.families[familyOf(source)];
  if (localDetector?.type === "cidr" && cidrContains(localDetector.cidr, source)) {
    return { sender: "pod", reason: `${source} is in the cluster CIDR ${localDetector.cidr}` };
  }
  for (const { name, endpoints } of slices) {
    if (endpoints.some((each) => each.address === source && each.nodeName === nodeName)) {
      return { sender: "pod", reason: `${source} is an endpoint on this node (slice ${name})` };
    }
  }
  return { sender: "external", reason: `${source} is no address of this node or of its pods` };
}
