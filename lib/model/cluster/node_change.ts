/**
 * What a change of the node means for the rules.
 *
 * @module
 */
import type { DesiredNode, StateChange } from "../kernel/desired.ts";
import { FAMILIES } from "../values/address.ts";
import { sameValue } from "../values/same_value.ts";

/**
 * Whether a step changes rules that all services depend on, so that everything is written again: any
 * field of the node counts, but the CIDRs and `ownAddresses`. Those are elements of sets, or rules of
 * their own.
 */
export function changesFixedRules({ node }: Pick<StateChange, "node">): boolean {
  return node !== undefined &&
    !sameValue(withoutAddresses(node.before), withoutAddresses(node.after));
}

function withoutAddresses({ families, ...rest }: DesiredNode): unknown {
  return [
    rest,
    ...FAMILIES.map((family) => ({
      ...families[family],
      serviceCIDRs: [],
      guardedCIDRs: [],
      ownAddresses: [],
    })),
  ];
}
