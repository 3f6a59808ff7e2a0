/** Checks ports that other programs publish for containers against node ports and addresses of Services. */
import { serviceOf } from "../model/cluster/names.ts";
import { familyOf } from "../model/values/address.ts";
import type { DesiredNode, DesiredServicePort } from "../model/kernel/desired.ts";
import type { Finding } from "../model/status.ts";
import { takesNodePorts } from "../policy/node.ts";
import { finding } from "./catalog.ts";
import { eachPort, type ForeignChain, type NodeFacts } from "./facts.ts";
import { baseChains, isOwn, packetAt, seesFamily } from "./foreign_chains.ts";
import { Interfaces } from "./interfaces.ts";
import { PacketWalk } from "./packet_walk.ts";

/** Programs that publish ports of containers, by their tables and chains. */
const PUBLISHERS: readonly (readonly [RegExp, string])[] = [
  [/ DOCKER/, "Docker"],
  [/netavark| nv_/i, "Podman"],
  [/ CNI-|cni_hostport/, "the plugin portmap"],
];

/** Finds ports that other programs send to containers, and that belong to a Service. */
export function* checkPublishedPorts(facts: NodeFacts): Generator<Finding | undefined> {
  const { objects } = facts;
  const bases = baseChains(facts, ["nat"]).filter(({ hook }) => hook.hook === "prerouting");
  if (!objects || bases.length === 0) return;
  // Rules of kube-proxy are another finding.
  const chains = facts.ruleset?.chains.filter(({ name }) => !name.startsWith("KUBE-")) ?? [];
  const walk = new PacketWalk(chains);
  const interfaces = new Interfaces(facts);
  const tables = new Set(bases.map(({ table }) => table));
  const named = namedIn(chains.filter(({ table }) => tables.has(table)));
  const found = new Map<string, Finding>();
  const isNear = (address: string) => named.addresses.has(address) || isOwn(address, facts);
  yield* eachPort(objects.desired, (each) => {
    const { name, family, protocol } = each;
    const service = serviceOf(name);
    const links = { in: interfaces.from("external", family), out: undefined };
    for (const { frontend, what } of ownFrontends(each, { facts, node: objects.desired.node })) {
      if (!named.hasPort(frontend.port) || !isNear(frontend.address)) continue;
      const flow = {
        ...{ sender: "external", path: "forward", mark: 0 } as const,
        ...{ service, family, protocol, frontend },
      };
      for (const base of bases.filter(({ table }) => seesFamily(table, family))) {
        const packet = packetAt(base, { flow, links, facts, interfaces });
        const { chain, to } = walk.translation(base, packet) ?? {};
        if (chain === undefined) continue;
        const place = `${base.table} ${chain}`;
        const where = `chain ${place} port ${frontend.port}/${protocol}`;
        if (found.has(where)) continue;
        const [, program] = PUBLISHERS.find(([known]) => known.test(place)) ?? [];
        const [namespace, serviceName] = service.split("/");
        found.set(
          where,
          finding("published-port-is-node-port", {
            what: `chain ${chain} of table ${base.table}${program ? ` (${program})` : ""} sends ` +
              `${protocol} port ${frontend.port}${to && ` to ${to}`}, and it is ${what} of ` +
              `${service}: only one of them gets the connections (in nftables mode the Service)`,
            where,
            remedy: "Publish the container at another port, or change the Service: " +
              `kubectl edit service -n ${namespace} ${serviceName}`,
            services: [service],
          }),
        );
      }
    }
    return false;
  });
  yield* found.values();
}

function* ownFrontends(
  { family, port, nodePort, clusterIPs, externalIPs, loadBalancerIPs }: DesiredServicePort,
  { facts, node }: { readonly facts: NodeFacts; readonly node: DesiredNode },
) {
  const own = nodePort === 0 ? [] : facts.interfaceAddresses;
  for (const address of own) {
    if (familyOf(address) !== family || !takesNodePorts(address, { node, isOwn: true })) continue;
    yield { frontend: { address, port: nodePort }, what: "the node port" };
  }
  for (const address of [...clusterIPs, ...externalIPs, ...loadBalancerIPs]) {
    yield { frontend: { address, port }, what: `a port of ${address}, an address` };
  }
}

/** Returns the addresses and ports that rules name, so that other frontends need no walk. */
function namedIn(chains: readonly ForeignChain[]) {
  const addresses = new Set<string>();
  const ports = new Set<number>();
  const ranges: (readonly [first: number, last: number])[] = [];
  for (const rule of chains.flatMap(({ rules }) => rules)) {
    for (const [address] of rule.matchAll(/[\da-f]*[.:][\da-f.:]+/g)) addresses.add(address);
    for (const [, first, last] of rule.matchAll(/\b(\d+)(?:-(\d+))?\b/g)) {
      if (last === undefined) ports.add(Number(first));
      else ranges.push([Number(first), Number(last)]);
    }
  }
  const isInRange = (port: number) => ranges.some(([first, last]) => first <= port && port <= last);
  return { addresses, hasPort: (port: number) => ports.has(port) || isInRange(port) };
}
