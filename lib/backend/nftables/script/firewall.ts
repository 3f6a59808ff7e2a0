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
import type { FrontendKey } from "./keys.ts";
import { base, vipOf } from "./layout.ts";
import { type Chain, element, type TableObject } from "./objects.ts";
import { NFT_FAMILY, tableSet } from "./sets.ts";

/** What every Service with source ranges needs. Before dnat, for the address that the client used. */
function sharedObjects({ ipFamilies }: DesiredNode): TableObject[] {
  const check = ["ct state new jump firewall"];
  const maps = ipFamilies.map((family) => tableSet("firewalls", { family }));
  return [
    ...maps,
    {
      type: "chain",
      role: "frontend",
      name: "firewall",
      rules: ipFamilies.map((family, i) => `${vipOf(family)} vmap @${maps[i]?.name}`),
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
  const set = tableSet("sourceRanges", { family, protocol });
  const chain: Chain = {
    type: "chain",
    role: "frontend",
    name: sourceRangeChain(port),
    rules: [`${ip} daddr . th dport . ${ip} saddr != @${set.name} drop`],
  };
  const firewalls = tableSet("firewalls", { family });
  const elements = loadBalancerIPs.flatMap((address) => {
    const frontend: FrontendKey = { type: "frontend", address, protocol, port: port.port };
    return [
      element(firewalls, frontend, { data: `goto ${chain.name}` }),
      ...sourceRanges.map((range) => element(set, { type: "sourceRange", frontend, range })),
    ];
  });
  return [...sharedObjects(node), set, chain, ...elements];
}

/** The name of the chain that drops sources outside of a service port's ranges. */
export function sourceRangeChain(port: Pick<DesiredServicePort, "family" | "protocol">): string {
  const { stem, family, protocol } = tableSet("sourceRanges", port);
  return `${stem}${family}-${protocol}`;
}
