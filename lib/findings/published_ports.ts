/** Checks ports that other programs publish for containers against node ports and addresses of Services. */
import { serviceOf } from "../model/cluster/names.ts";
import { FAMILIES, type Family, familyOf } from "../model/values/address.ts";
import type { DesiredServicePort } from "../model/kernel/desired.ts";
import type { Finding } from "../model/status.ts";
import { takesNodePorts } from "../policy/node.ts";
import { finding } from "./catalog.ts";
import { eachPort, type NodeFacts, type ObjectFacts } from "./facts.ts";
import { baseChains, isOwn, NO_LINK, seesFamily, sourceOf } from "./foreign_chains.ts";
import { Interfaces } from "./interfaces.ts";
import { type BaseChain, PacketWalk } from "./packet_walk.ts";

/** Programs that publish ports of containers, by their tables and chains. */
const PUBLISHERS: readonly (readonly [RegExp, string])[] = [
  [/ DOCKER/, "Docker"],
  [/netavark| nv_/i, "Podman"],
  [/ CNI-|cni_hostport/, "the plugin portmap"],
];

/** Finds ports of Services that other programs send to containers. */
export function* checkPublishedPorts(facts: NodeFacts): Generator<Finding | undefined> {
  const { objects } = facts;
  const bases = baseChains(facts, ["nat"]).filter(({ hook }) => hook.hook === "prerouting");
  if (!objects || bases.length === 0) return;
  // The finding `another-proxy` is about kube-proxy's rules.
  const chains = facts.ruleset?.chains.filter(({ name }) => !name.startsWith("KUBE-")) ?? [];
  const walk = new PacketWalk(chains);
  /** The addresses in rules. A search in all rules for each Service would take seconds beside Calico. */
  const named = new Set<string>();
  for (const rule of chains.flatMap(({ rules }) => rules)) {
    for (const [address] of rule.matchAll(/[\da-f.:]+/g)) named.add(address);
    yield;
  }
  const interfaces = new Interfaces(facts);
  const seen = new Map(FAMILIES.map((family): [Family, BaseChain[]] => [
    family,
    bases.filter(({ table }) => seesFamily(table, family)),
  ]));
  const found = new Map<string, Finding>();
  yield* eachPort(objects.desired, (servicePort) => {
    const { name, family, protocol } = servicePort;
    const sent = {
      ...{ family, protocol, state: "new", isTranslated: false } as const,
      source: sourceOf("external", { family, facts }),
      iif: interfaces.from("external", family),
      oif: NO_LINK,
    };
    for (const { daddr, dport, what } of frontendsOf(servicePort, { facts, objects })) {
      const isLocal = isOwn(daddr, facts);
      // A rule that names no address is about this node's own ones.
      if (!isLocal && !named.has(daddr)) continue;
      const packet = { ...sent, daddr, dport, isLocal };
      for (const base of seen.get(family) ?? []) {
        const { chain, to } = walk.translation(base, packet) ?? {};
        const place = `${base.table} ${chain}`;
        const where = `chain ${place} port ${dport}/${protocol}`;
        if (chain === undefined || found.has(where)) continue;
        const [, program] = PUBLISHERS.find(([known]) => known.test(place)) ?? [];
        const service = serviceOf(name);
        const [namespace, serviceName] = service.split("/");
        found.set(
          where,
          finding("published-port-is-node-port", {
            what: `chain ${chain} of table ${base.table}${program ? ` (${program})` : ""} sends ` +
              `${protocol} port ${dport}${to && ` to ${to}`}, and it is ${what} of ` +
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

/** Returns the addresses and ports of a service port, with words for each. */
function* frontendsOf(
  { family, port, nodePort, clusterIPs, externalIPs, loadBalancerIPs }: DesiredServicePort,
  { facts, objects }: { readonly facts: NodeFacts; readonly objects: ObjectFacts },
) {
  const place = { node: objects.desired.node, isOwn: true };
  for (const daddr of nodePort === 0 ? [] : facts.interfaceAddresses) {
    if (familyOf(daddr) !== family || !takesNodePorts(daddr, place)) continue;
    yield { daddr, dport: nodePort, what: "the node port" };
  }
  for (const daddr of [...clusterIPs, ...externalIPs, ...loadBalancerIPs]) {
    yield { daddr, dport: port, what: `a port of ${daddr}, an address` };
  }
}
