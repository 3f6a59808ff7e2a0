/**
 * Which IP families this node's kernel has.
 *
 * @module
 */
import { FAMILIES, type Family } from "../model/address.ts";
import type { Runtime } from "../model/runtime.ts";

/** Families that rules are not written for, with the reason, which ends a sentence. */
export type MissingFamilies = ReadonlyMap<Family, string>;

/** The kernel's list of IPv6 addresses; not there with `ipv6.disable=1`. kube-proxy looks there too. */
const IPV6_ADDRESSES = "/proc/net/if_inet6";
/** There on every kernel with a network: without it, nothing can be said. */
const INTERFACES = "/proc/net/dev";

/**
 * The families that this node's kernel does not have.
 *
 * @param runtime reads files; a file that cannot be read is not there
 */
export async function missingFamilies(
  { readFile }: Pick<Runtime, "readFile">,
): Promise<MissingFamilies> {
  const isThere = (path: string) => readFile(path).then(() => true, () => false);
  if (await isThere(IPV6_ADDRESSES) || !await isThere(INTERFACES)) return new Map();
  return new Map([[6, `this node has no IPv6 (there is no ${IPV6_ADDRESSES})`]]);
}

/** The families that are left, IPv4 first. */
export function familiesBut(missing: MissingFamilies): readonly Family[] {
  return FAMILIES.filter((family) => !missing.has(family));
}
