/**
 * Checks that a ServiceCIDR has cluster IPs alone. The API server gives its addresses out, and nftables mode
 * drops new connections to those that nobody is known to have.
 *
 * @module
 */
import { serviceOf } from "../model/cluster/names.ts";
import { cidrContains, cidrTest, FAMILIES, isInsideCidr } from "../model/values/address.ts";
import { eachPort, type NodeFacts, type ObjectFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** Names that a finding lists. */
const MOST_NAMED = 20;

/** Finds what has an address in a ServiceCIDR, and the API server at a cluster IP. */
export function* checkAddressPlan(facts: NodeFacts): Generator<undefined, Finding[]> {
  const { objects, apiServerAddresses = [] } = facts;
  if (!objects) return [];
  const cidrs = FAMILIES.flatMap((family) => objects.desired.node.families[family].serviceCIDRs);
  const inUse = new Map(cidrs.map((cidr) => [cidr, knownInside(cidr, facts, objects)]));
  const ranges = cidrs.map((cidr) => ({
    cidr,
    contains: cidrTest(cidr),
    services: new Set<string>(),
  }));
  const traps = new Map<string, string>();
  yield* eachPort(objects.desired, ({ name, clusterIPs, clusterEndpoints }) => {
    const trap = clusterIPs.find((each) => apiServerAddresses.includes(each));
    if (trap !== undefined) traps.set(trap, serviceOf(name));
    for (const { cidr, contains, services } of ranges) {
      if (services.size >= MOST_NAMED) continue;
      const endpoint = clusterEndpoints.find(({ address }) => contains(address));
      if (endpoint === undefined || services.has(serviceOf(name))) continue;
      if (services.size === 0) {
        inUse.get(cidr)?.push(`the endpoint ${endpoint.address} of ${serviceOf(name)}`);
      }
      services.add(serviceOf(name));
    }
    return false;
  });
  const overlaps = ranges.flatMap(({ cidr, services }) => {
    const names = inUse.get(cidr) ?? [];
    const what = `the ServiceCIDR ${cidr} contains ${names.join(", ")}`;
    const details = { what, where: `ServiceCIDR ${cidr}`, services: [...services] };
    return names.length === 0 ? [] : [finding("service-cidr-overlaps", details)];
  });
  return [
    ...[...traps].map(([address, service]) =>
      finding("api-server-is-cluster-ip", {
        what: `the API server ${address} is the cluster IP of Service ${service}`,
        where: `Service ${service}`,
        services: [service],
      })
    ),
    ...overlaps,
  ];
}

/** Names what is known without a look at the Services. */
function knownInside(
  cidr: string,
  { configuration, apiServerAddresses = [] }: NodeFacts,
  { node }: ObjectFacts,
): string[] {
  const ranges = new Set([...configuration.clusterCIDRs, ...node?.podCIDRs ?? []]);
  const inside = (addresses: readonly string[]) =>
    addresses.filter((address) => cidrContains(cidr, address));
  return [
    ...inside(apiServerAddresses).map((each) => `the API server ${each}`),
    ...inside(node?.addresses ?? []).map((each) => `this node's address ${each}`),
    ...[...ranges].filter((range) => isInsideCidr(range, cidr)).map((each) => `pods (${each})`),
  ].slice(0, MOST_NAMED);
}
