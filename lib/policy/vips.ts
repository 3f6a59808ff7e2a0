/**
 * How many frontends of virtual IPs there are, and whether one map is to hold them.
 *
 * @module
 */
import type { Family } from "../model/values/address.ts";
import type { DesiredNode, DesiredServicePort, ServiceChange } from "../model/kernel/desired.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";

/** Counts addresses with a port, by family. */
export function followVips(
  counts: Record<Family, number>,
  { before, after }: ServiceChange,
): void {
  if (before === after) return;
  for (const port of before) counts[port.family] -= vipCount(port);
  for (const port of after) counts[port.family] += vipCount(port);
}

function vipCount({ clusterIPs, externalIPs, loadBalancerIPs }: DesiredServicePort): number {
  return clusterIPs.length + externalIPs.length + loadBalancerIPs.length;
}

/** Has very many in several maps, from then on: around the limit, all would be written again and again. */
export function cutWhereMany(
  node: DesiredNode,
  { traits, vips }: {
    readonly traits: Pick<ModeTraits, "mostFrontends">;
    readonly vips: Readonly<Record<Family, number>>;
  },
): DesiredNode {
  if (node.cutsFrontends || Math.max(...Object.values(vips)) <= traits.mostFrontends) return node;
  return { ...node, cutsFrontends: true };
}
