/**
 * Decides which changes of the node need a full sync.
 *
 * @module
 */
import type { DesiredNode, StateChange } from "../kernel/desired.ts";
import { FAMILIES } from "../values/address.ts";
import { sameValue } from "../values/same_value.ts";

/**
 * Returns true if a node change affects rules that all services share. The CIDRs and `ownAddresses`
 * do not: they are set elements, or rules of their own.
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
