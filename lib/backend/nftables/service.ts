/** Turns a desired service port into the objects of the table. */
import {
  type DesiredNode,
  type DesiredServicePort,
  noEndpointsReason,
  usedEndpoints,
} from "../../model/kernel/desired.ts";
import type { Protocol, TrafficPolicy } from "../../model/cluster/objects.ts";
import {
  base,
  FILTER_PRIORITY,
  fromLocalPod,
  LOOPBACK,
  NODE_PORT,
  shortCircuitChain,
  vipOf,
} from "./layout.ts";
import { chain, type Element, element, type TableObject } from "./table.ts";
import { type Frontend, pickFor } from "./pick.ts";
import { type FrontendKey, type FrontendKind, tableSet, withCounters } from "./sets.ts";
import { type Family, NFT_FAMILY } from "../../model/values/address.ts";
import { isServedOnLoopback } from "../../policy/frontend.ts";

const OUTSIDE_CHAIN: Readonly<Record<FrontendKind, string>> = {
  vip: "external",
  nodeport: "nodeport",
};

/** Returns all objects that a service port needs. An object may be listed twice, and service ports may share it. */
export function objectsOf(port: DesiredServicePort, node: DesiredNode): TableObject[] {
  const { protocol, nodePort } = port;
  const vip = (address: string): Frontend => ({
    kind: "vip",
    key: { type: "frontend", address, protocol, port: port.port },
  });
  const external = [...port.loadBalancerIPs, ...port.externalIPs].map(vip);
  const nodePorts: Frontend[] = nodePort === 0 ? [] : [{
    kind: "nodeport",
    key: { type: "frontend", address: undefined, protocol, port: nodePort },
  }];
  const accelerated = port.accelerated
    ? [...port.clusterIPs.map(vip), ...external, ...nodePorts]
    : [];
  return [
    ...port.clusterIPs.flatMap((address) => [
      element(tableSet("clusterIPs", { family: port.family }), { type: "text", text: address }),
      ...clusterIPObjects(port, vip(address), node),
    ]),
    ...[...external, ...nodePorts].flatMap((frontend) => externalObjects(port, frontend)),
    ...firewallObjects(port, node),
    ...localhostObjects(port, node),
    ...hairpinObjects(port),
    ...accelerated.map(({ kind, key }) =>
      element(tableSet("accelerated", { frontend: kind, family: port.family }), key, {
        comment: port.name,
      })
    ),
  ];
}

function clusterIPObjects(
  port: DesiredServicePort,
  frontend: Frontend,
  node: DesiredNode,
): TableObject[] {
  const { family, internalTrafficPolicy: policy } = port;
  const { localDetector } = node.families[family];
  const pick = pickFor(port, { policy, map: "endpoints", frontend });
  if (!pick) return [noEndpointsElement(port, frontend, policy)];
  const masquerade = node.masqueradeAll ? "jump mark-for-masquerade" : localDetector &&
    `${fromLocalPod(localDetector, { family, negated: true })} jump mark-for-masquerade`;
  const leadTo = (chain: string) => serviceElement(port, frontend, chain);
  if (!masquerade) return [...pick.objects, leadTo(pick.chain)];
  const name = `cluster${pick.suffix}`;
  return [
    ...pick.objects,
    chain(name, [masquerade, `goto ${pick.chain}`]),
    leadTo(name),
  ];
}

function externalObjects(port: DesiredServicePort, frontend: Frontend): TableObject[] {
  if (port.externalTrafficPolicy === "Local") return localObjects(port, frontend);
  const pick = pickFor(port, { policy: "Cluster", map: "endpoints", frontend });
  if (!pick) return [noEndpointsElement(port, frontend, "Cluster")];
  const name = `${OUTSIDE_CHAIN[frontend.kind]}${pick.suffix}`;
  return [
    ...pick.objects,
    chain(name, ["jump mark-for-masquerade", `goto ${pick.chain}`]),
    ...guardedElement(port, frontend, name),
  ];
}

/** Returns the objects of the external policy Local: it keeps the client's address, and uses this node's endpoints. */
function localObjects(port: DesiredServicePort, frontend: Frontend): TableObject[] {
  const { family } = port;
  const { kind, key } = frontend;
  const cluster = pickFor(port, { policy: "Cluster", map: "endpoints", frontend });
  const local = pickFor(port, { policy: "Local", map: "localEndpoints", frontend });
  const dropped = local ? [] : [noEndpointsElement(port, frontend, "Local")];
  if (!cluster && !local) return dropped;
  // Without a local endpoint, the chain has the short circuit alone.
  const name = `${OUTSIDE_CHAIN[kind]}-local${local?.suffix ?? `${family}-0`}`;
  const shortCircuits = tableSet("shortCircuits", { frontend: kind, family });
  return [
    ...(cluster?.objects ?? []),
    ...(cluster ? [element(shortCircuits, key, { data: `goto ${cluster.chain}` })] : []),
    ...(local?.objects ?? []),
    chain(name, [
      `jump ${shortCircuitChain(family, kind)}`,
      ...local ? [`goto ${local.chain}`] : [],
    ]),
    ...guardedElement(port, frontend, name),
    ...dropped,
  ];
}

function hairpinObjects(port: DesiredServicePort): Element[] {
  const set = tableSet("hairpins", { family: port.family });
  return usedEndpoints(port).filter(({ hairpin }) => hairpin).map(({ address }) =>
    element(set, { type: "text", text: `${address} . ${address}` })
  );
}

function noEndpointsElement(
  port: DesiredServicePort,
  { kind, key }: Frontend,
  policy: TrafficPolicy,
): Element {
  const { name, family } = port;
  const isRejected = noEndpointsReason(port, policy) === "no-endpoints";
  const data = isRejected ? "goto reject-traffic" : "drop";
  return element(tableSet("noEndpoints", { frontend: kind, family }), key, { data, comment: name });
}

function serviceElement(
  { name, family }: DesiredServicePort,
  { kind, key }: Frontend,
  chain: string,
): Element {
  const set = tableSet("services", { frontend: kind, family });
  return element(set, key, { data: `goto ${chain}`, comment: name });
}

/**
 * Leads a frontend to a chain; with source ranges, only clients inside them. A packet may meet the firewall before a
 * commit that adds the frontend, and the nat hook after it. So the firewall alone would let the packet pass.
 */
function guardedElement(
  port: DesiredServicePort,
  frontend: Frontend,
  name: string,
): TableObject[] {
  const isGuarded = port.sourceRanges.length > 0 &&
    port.loadBalancerIPs.some((each) => each === frontend.key.address);
  if (!isGuarded) return [serviceElement(port, frontend, name)];
  const guard = chain(`${sourceRangeChain(port)}-${name}`, [
    `${inRanges(port)} goto ${name}`,
    "drop",
  ]);
  return [guard, serviceElement(port, frontend, guard.name)];
}

function inRanges(port: DesiredServicePort): string {
  const ip = NFT_FAMILY[port.family];
  return `${ip} daddr . th dport . ${ip} saddr @${tableSet("sourceRanges", port).name}`;
}

export function hasSourceRanges({ sourceRanges, loadBalancerIPs }: DesiredServicePort): boolean {
  return sourceRanges.length > 0 && loadBalancerIPs.length > 0;
}

/** Returns the chains that check source ranges before DNAT, by the address that the client used. */
function sharedFirewallObjects({ ipFamilies }: DesiredNode): TableObject[] {
  const check = ["ct state new jump firewall"];
  const maps = ipFamilies.map((family) => tableSet("firewalls", { family }));
  return [
    ...maps,
    chain("firewall", ipFamilies.map((family, i) => `${vipOf(family)} vmap @${maps[i]?.name}`)),
    base("filter-prerouting", "filter hook prerouting priority -110", check),
    base("filter-output-before-dnat", "filter hook output priority -110", check),
  ];
}

/**
 * Drops sources outside of the ranges at load-balancer IPs. Each protocol has a set. With the protocol in an interval
 * key, nft before 1.1 writes a byte-order conversion, which kernels from 6.12.115 on refuse.
 */
function firewallObjects(port: DesiredServicePort, node: DesiredNode): TableObject[] {
  if (!hasSourceRanges(port)) return [];
  const { family, protocol, sourceRanges, loadBalancerIPs } = port;
  const set = tableSet("sourceRanges", port);
  const drops = node.countsConnections
    ? withCounters(tableSet("firewallDrops", { family }))
    : undefined;
  const checking = chain(sourceRangeChain(port), [
    `${inRanges(port)} return`,
    ...drops ? [`${vipOf(family)} vmap @${drops.name}`] : [],
    "drop",
  ]);
  const firewalls = tableSet("firewalls", { family });
  const elements = loadBalancerIPs.flatMap((address) => {
    const frontend: FrontendKey = { type: "frontend", address, protocol, port: port.port };
    return [
      element(firewalls, frontend, { data: `goto ${checking.name}` }),
      ...drops ? [element(drops, frontend, { data: "drop", comment: port.name })] : [],
      ...sourceRanges.map((range) => element(set, { type: "sourceRange", frontend, range })),
    ];
  });
  return [...sharedFirewallObjects(node), set, ...drops ? [drops] : [], checking, ...elements];
}

export function sourceRangeChain(port: Pick<DesiredServicePort, "family" | "protocol">): string {
  const { stem, family, protocol } = tableSet("sourceRanges", port);
  return `${stem}${family}-${protocol}`;
}

/** Rejects and counts a node port on loopback, unless a listener serves it. */
function localhostObjects(port: DesiredServicePort, node: DesiredNode): TableObject[] {
  const { name: comment, family, protocol, nodePort } = port;
  const isRejected = node.families[family].loopback && !isServedOnLoopback(port, node);
  if (nodePort === 0 || !isRejected) return [];
  const name = localhostRejectChain(family, protocol);
  return [
    ...sharedLocalhostObjects(node),
    chain(name, ["counter reject"]),
    element(
      tableSet("localhostRejects", { family }),
      { type: "frontend", address: undefined, protocol, port: nodePort },
      { data: `goto ${name}`, comment },
    ),
  ];
}

function sharedLocalhostObjects(node: DesiredNode): TableObject[] {
  const families = node.ipFamilies.filter((family) => node.families[family].loopback);
  const maps = families.map((family) => tableSet("localhostRejects", { family }));
  const rules = families.map((family, i) =>
    `${NFT_FAMILY[family]} daddr ${LOOPBACK[family]} ct state new ${NODE_PORT} vmap @${
      maps[i]?.name
    }`
  );
  const hook = `filter hook input priority ${FILTER_PRIORITY}`;
  return [...maps, base("filter-input-localhost", hook, rules)];
}

export function localhostRejectChain(family: Family, protocol: Protocol): string {
  return `reject-localhost${family}-${protocol}`;
}
