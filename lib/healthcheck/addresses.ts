/**
 * Where health-check node ports listen: on the node's addresses that take node ports, and on the
 * Service's load-balancer IPs that the node has or a local route leads to, of the families that the Service has.
 *
 * @module
 */
import { cidrContains, type Family, familyOf } from "../model/values/address.ts";
import type { DesiredNode } from "../model/kernel/desired.ts";

/** What they follow from of a Service. */
export interface HealthCheckPlace {
  readonly families: readonly Family[];
  /** Canonical; some clouds ask there. */
  readonly loadBalancerIPs: readonly string[];
}

/** What the addresses follow from. */
export interface AddressInputs {
  readonly node: DesiredNode;
  /** The addresses of all network interfaces, canonical. */
  readonly ownAddresses: readonly string[];
}

/**
 * Addresses in groups, each to be opened as one: that one family cannot listen is nothing to the other.
 *
 * kube-proxy has a server for each family. Where both families take node ports on all addresses, one
 * socket on `::` serves both, which the system offers for IPv6 only together with IPv4. Otherwise `::`
 * would answer on IPv4 addresses that take no node ports: then each IPv6 address has its own socket.
 */
export function healthCheckAddresses(
  { families, loadBalancerIPs }: HealthCheckPlace,
  { node, ownAddresses }: AddressInputs,
): readonly (readonly string[])[] {
  const isAll = (family: Family) => node.families[family].nodePortAddresses.type === "all";
  if (families.includes(6) && isAll(4) && isAll(6)) return [["::"]];
  const groups = families.map((family) => {
    const { nodePortAddresses } = node.families[family];
    if (family === 4 && nodePortAddresses.type === "all") return ["0.0.0.0"];
    const own = ownAddresses.filter((each) => familyOf(each) === family && !isLinkLocal(each));
    return nodePortAddresses.type === "all"
      ? own
      : own.filter((address) =>
        nodePortAddresses.cidrs.some((cidr) => cidrContains(cidr, address))
      );
  });
  const open = groups.flat();
  const vips = loadBalancerIPs.filter((address) =>
    families.includes(familyOf(address)) && ownAddresses.includes(address) &&
    !open.includes(address) && !(familyOf(address) === 4 && open.includes("0.0.0.0"))
  );
  return [...groups, ...vips.map((address) => [address])]
    .map((group) => [...new Set(group)].sort()).filter((group) => group.length > 0);
}

/**
 * Load-balancer IPs that no interface has. The kernel lets a program listen there only if a local route
 * leads to this node, as the guest agents of some clouds make it.
 */
export function routedAddresses(
  { families, loadBalancerIPs }: HealthCheckPlace,
  { node, ownAddresses }: AddressInputs,
): readonly string[] {
  return loadBalancerIPs.filter((address) => {
    const family = familyOf(address);
    return families.includes(family) && !ownAddresses.includes(address) &&
      node.families[family].nodePortAddresses.type !== "all";
  });
}

/** IPv6 addresses of a link mean nothing without the interface. */
function isLinkLocal(address: string): boolean {
  return cidrContains("fe80::/10", address);
}
