/**
 * The source ranges of load-balancer IPs: chains, maps and sets that are there while some Service
 * has ranges.
 *
 * A set of ranges is an interval set, and those have no protocol in their key. For one byte in such a
 * key, nft before 1.1 writes a byte-order conversion that kernels from 6.12.115 on refuse, and the
 * table with it. So there is a set for each protocol, and the map of verdicts, which is no interval
 * set, leads to it.
 *
 * @module
 */
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import { vipKey } from "../../../model/cluster/names.ts";
import { base, namedSet, vipOf, vipType } from "./layout.ts";
import { type Chain, type NamedSet, NFT_FAMILY, type TableObject } from "./objects.ts";

/** What every Service with source ranges needs. Before dnat, for the address that the client used. */
function sharedObjects({ ipFamilies }: DesiredNode): TableObject[] {
  const check = ["ct state new jump firewall"];
  return [
    ...ipFamilies.map((family) =>
      namedSet("map", `firewalls${family}`, `typeof ${vipType(family)} : verdict`)
    ),
    {
      type: "chain",
      name: "firewall",
      rules: ipFamilies.map((family) => `${vipOf(family)} vmap @firewalls${family}`),
    },
    base("filter-prerouting", "filter hook prerouting priority -110", check),
    base("filter-output-before-dnat", "filter hook output priority -110", check),
  ];
}

/** What drops the sources outside of a service port's ranges at its load-balancer IPs. */
export function firewallObjects(port: DesiredServicePort, node: DesiredNode): TableObject[] {
  const { family, protocol, sourceRanges, loadBalancerIPs } = port;
  if (sourceRanges.length === 0 || loadBalancerIPs.length === 0) return [];
  const ip = NFT_FAMILY[family];
  const set: NamedSet = {
    type: "set",
    kind: "set",
    name: sourceRangeSet(port),
    body: `typeof ${ip} daddr . ${protocol} dport . ${ip} saddr; flags interval`,
  };
  const chain: Chain = {
    type: "chain",
    name: sourceRangeChain(port),
    rules: [`${ip} daddr . th dport . ${ip} saddr != @${set.name} drop`],
  };
  const elements = loadBalancerIPs.flatMap((address) => [
    {
      type: "element" as const,
      set: `firewalls${family}`,
      key: vipKey(address, protocol, port.port),
      data: `goto ${chain.name}`,
      comment: "",
    },
    ...sourceRanges.map((range) => ({
      type: "element" as const,
      set: set.name,
      key: `${address} . ${port.port} . ${range}`,
      data: "",
      comment: "",
    })),
  ]);
  return [...sharedObjects(node), set, chain, ...elements];
}

/** The name of the chain that drops sources outside of a service port's ranges. */
export function sourceRangeChain(
  { family, protocol }: Pick<DesiredServicePort, "family" | "protocol">,
): string {
  return `source-ranges${family}-${protocol}`;
}

/** The name of the set that holds a service port's source ranges. */
export function sourceRangeSet(
  { family, protocol }: Pick<DesiredServicePort, "family" | "protocol">,
): string {
  return `source-ranges-${protocol}${family}`;
}
