/**
 * One desired service port to the objects of the table that carry it.
 *
 * @module
 */
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { TrafficPolicy } from "../../../model/cluster/objects.ts";
import { nodePortKey, vipKey } from "../../../model/cluster/names.ts";
import { firewallObjects } from "./firewall.ts";
import { fromLocalPod, type FrontendKind, shortCircuitChain } from "./layout.ts";
import type { Element, TableObject } from "./objects.ts";
import { endpointsFor, pickFor } from "./pick.ts";

/** A way to reach a service port: a virtual IP or a node port. */
interface Frontend {
  readonly kind: FrontendKind;
  /** Its key in the maps that lead to chains. */
  readonly key: string;
  /** The virtual IP; `undefined` for a node port. */
  readonly address: string | undefined;
}

type VirtualIP = Frontend & { readonly address: string };

/** The maps of a kind of frontend, and what the chains for traffic from outside are called. */
const WORDS = {
  vip: {
    chain: "external",
    services: "services",
    shortCircuits: "short-circuits",
    noEndpoints: "no-endpoints",
    endpoints: "endpoints",
    localEndpoints: "local-endpoints",
  },
  nodeport: {
    chain: "nodeport",
    services: "nodeports",
    shortCircuits: "nodeport-short-circuits",
    noEndpoints: "no-endpoint-nodeports",
    endpoints: "nodeport-endpoints",
    localEndpoints: "nodeport-local-endpoints",
  },
} as const;

/** All objects of a service port. The same object may be named twice, and by other service ports too. */
export function objectsOf(port: DesiredServicePort, node: DesiredNode): TableObject[] {
  const vip = (address: string): VirtualIP => ({
    kind: "vip",
    key: vipKey(address, port.protocol, port.port),
    address,
  });
  const external = [...port.loadBalancerIPs, ...port.externalIPs].map(vip);
  const nodePorts: Frontend[] = port.nodePort === 0
    ? []
    : [{ kind: "nodeport", key: nodePortKey(port.protocol, port.nodePort), address: undefined }];
  return [
    ...port.clusterIPs.flatMap((address) => clusterIPObjects(port, vip(address), node)),
    ...[...external, ...nodePorts].flatMap((frontend) => externalObjects(port, frontend)),
    ...firewallObjects(port, node),
    ...hairpinObjects(port),
  ];
}

/** Cluster IPs: masqueraded where the client is no pod of this node, as configured. */
function clusterIPObjects(
  port: DesiredServicePort,
  frontend: VirtualIP,
  node: DesiredNode,
): TableObject[] {
  const { family, internalTrafficPolicy: policy } = port;
  const { localDetector } = node.families[family];
  const { address } = frontend;
  const guard = element(`cluster-ips${family}`, address);
  const pick = pickFor(port, { policy, map: "endpoints", address });
  if (!pick) return [guard, noEndpointsElement(port, frontend, policy)];
  const masquerade = node.masqueradeAll ? "jump mark-for-masquerade" : localDetector &&
    `${fromLocalPod(localDetector, { family, negated: true })} jump mark-for-masquerade`;
  if (!masquerade) return [guard, ...pick.objects, serviceElement(port, frontend, pick.chain)];
  const name = `cluster${pick.suffix}`;
  return [
    guard,
    ...pick.objects,
    { type: "chain", name, rules: [masquerade, `goto ${pick.chain}`] },
    serviceElement(port, frontend, name),
  ];
}

/** External addresses and node ports under the external traffic policy Cluster: always masqueraded. */
function externalObjects(port: DesiredServicePort, frontend: Frontend): TableObject[] {
  if (port.externalTrafficPolicy === "Local") return localObjects(port, frontend);
  const words = WORDS[frontend.kind];
  const pick = pickFor(port, {
    policy: "Cluster",
    map: words.endpoints,
    address: frontend.address,
  });
  if (!pick) return [noEndpointsElement(port, frontend, "Cluster")];
  const name = `${words.chain}${pick.suffix}`;
  return [
    ...pick.objects,
    { type: "chain", name, rules: ["jump mark-for-masquerade", `goto ${pick.chain}`] },
    serviceElement(port, frontend, name),
  ];
}

/** External traffic policy Local: the client's address is kept, and only endpoints of this node are used. */
function localObjects(port: DesiredServicePort, frontend: Frontend): TableObject[] {
  const { family } = port;
  const { kind, key, address } = frontend;
  const words = WORDS[kind];
  const cluster = pickFor(port, { policy: "Cluster", map: words.endpoints, address });
  const local = pickFor(port, { policy: "Local", map: words.localEndpoints, address });
  const dropped = local ? [] : [noEndpointsElement(port, frontend, "Local")];
  if (!cluster && !local) return dropped;
  // Without an endpoint here, only the short circuit is left.
  const name = `${words.chain}-local${local?.suffix ?? `${family}-0`}`;
  const rules = [`jump ${shortCircuitChain(family, kind)}`];
  return [
    ...(cluster?.objects ?? []),
    ...(cluster ? [element(`${words.shortCircuits}${family}`, key, { goTo: cluster.chain })] : []),
    ...(local?.objects ?? []),
    { type: "chain", name, rules: local ? [...rules, `goto ${local.chain}`] : rules },
    serviceElement(port, frontend, name),
    ...dropped,
  ];
}

/** Endpoints whose own connections may come back to them through this node. */
function hairpinObjects(port: DesiredServicePort): Element[] {
  const all = [...endpointsFor(port, "Cluster"), ...endpointsFor(port, "Local")];
  return all.filter(({ hairpin }) => hairpin).map(({ address }) =>
    element(`hairpins${port.family}`, `${address} . ${address}`)
  );
}

/** No endpoint anywhere: reject. Endpoints, but none that the policy allows here: drop. */
function noEndpointsElement(
  port: DesiredServicePort,
  frontend: Frontend,
  policy: TrafficPolicy,
): Element {
  const drop = policy === "Local" && port.hasEndpoints;
  return element(`${WORDS[frontend.kind].noEndpoints}${port.family}`, frontend.key, {
    ...(drop ? { verdict: "drop" } : { goTo: "reject-traffic" }),
    comment: port.name,
  });
}

function serviceElement(port: DesiredServicePort, frontend: Frontend, chain: string): Element {
  return element(`${WORDS[frontend.kind].services}${port.family}`, frontend.key, {
    goTo: chain,
    comment: port.name,
  });
}

function element(
  set: string,
  key: string,
  options: { readonly goTo?: string; readonly verdict?: string; readonly comment?: string } = {},
): Element {
  const data = options.goTo === undefined ? options.verdict ?? "" : `goto ${options.goTo}`;
  return { type: "element", set, key, data, comment: options.comment ?? "" };
}
