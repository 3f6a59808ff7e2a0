/**
 * Finds the IP families of this node's kernel.
 * @module
 */
import { FAMILIES, type Family } from "../model/values/address.ts";
import type { Runtime } from "../model/ports/runtime.ts";

/** Families without rules, with the reason, which ends a sentence. */
export type MissingFamilies = ReadonlyMap<Family, string>;

const NO_IPV6 = "this node has no IPv6 (the kernel has no IPv6 sockets)";

/** Returns the families that this node's kernel lacks. */
export function missingFamilies({ hasIpv6 }: Pick<Runtime, "hasIpv6">): MissingFamilies {
  return hasIpv6() ? new Map() : new Map([[6, NO_IPV6]]);
}

/** Returns the other families, IPv4 first. */
export function familiesBut(missing: MissingFamilies): readonly Family[] {
  return FAMILIES.filter((family) => !missing.has(family));
}
