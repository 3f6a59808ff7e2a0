/**
 * Whether one map is to hold the frontends of all virtual IPs.
 *
 * @module
 */
import type { Family } from "../model/values/address.ts";
import type { DesiredNode } from "../model/kernel/desired.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";

/**
 * Has very many in several maps, from then on: around the limit, all would be written again and again.
 *
 * @param options `vips`: by family, how many Services ask for
 */
export function cutWhereMany(
  node: DesiredNode,
  { traits, vips }: {
    readonly traits: Pick<ModeTraits, "mostFrontends">;
    readonly vips: Readonly<Record<Family, number>>;
  },
): DesiredNode {
  const isCut = node.cutsFrontends ||
    node.ipFamilies.some((family) => vips[family] > traits.mostFrontends);
  return isCut === node.cutsFrontends ? node : { ...node, cutsFrontends: isCut };
}
