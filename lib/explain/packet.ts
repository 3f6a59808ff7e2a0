/**
 * Explains how this node handles the first packet of a connection, by the desired state alone.
 *
 * The order is that of the rules: the firewall of load-balancer IPs, virtual IPs, node ports, refusals, the guard
 * of the cluster IPs' range.
 */
import { cidrContains, familyOf, isLoopback } from "../model/values/address.ts";
import {
  type DesiredServicePort,
  type DesiredState,
  endpointsFor,
  type LocalDetector,
  usedEndpoints,
} from "../model/kernel/desired.ts";
import type { TrafficPolicy } from "../model/cluster/objects.ts";
import {
  findFrontend,
  type Masquerade,
  NOTHING,
  type Outcome,
  type Packet,
  type PacketDestination,
  type World,
} from "./outcome.ts";
import { LISTEN_ADDRESS, localhostEndpoints, type Match, policyOf } from "../policy/frontend.ts";
import { takesNodePorts } from "../policy/node.ts";
import { hostPort } from "../model/cluster/names.ts";

/** Explains how this node handles a packet. */
export function explainPacket(packet: Packet, world: World): Outcome {
  // This is the order of the fields in JSON.
  const { verdict, code, reason, rule, ...rest } = decide(packet, world);
  return { verdict, code, reason, rule, ...rest };
}

function decide(packet: Packet, world: World): Outcome {
  const match = findFrontend(packet, world);
  if (!match) return localhostOutcome(packet, world) ?? withoutFrontend(packet, world);
  const about = {
    servicePort: match.servicePort.name,
    frontend: match.frontend.type,
  };
  const blocked = blockedBySource(packet, match);
  if (blocked === "yes") {
    return {
      ...NOTHING,
      ...about,
      verdict: "drop",
      code: "source-range",
      reason: `${packet.source} is in none of spec.loadBalancerSourceRanges ` +
        `(${match.servicePort.sourceRanges.join(", ")})`,
      rule: world.rules.firewall(match),
    };
  }
  const conditions = blocked === "unknown"
    ? [`sources outside of ${match.servicePort.sourceRanges.join(", ")} are dropped`]
    : [];
  const outcome = match.frontend.type === "clusterIP"
    ? internal(packet, { match, world })
    : external(packet, { match, world });
  return { ...outcome, ...about, conditions };
}

interface Context {
  readonly match: Match;
  readonly world: World;
}

function blockedBySource(
  { source }: Packet,
  { servicePort: { sourceRanges }, frontend }: Match,
): "no" | "yes" | "unknown" {
  if (frontend.type !== "loadBalancerIP" || sourceRanges.length === 0) return "no";
  if (source === undefined) return "unknown";
  return sourceRanges.some((range) => cidrContains(range, source)) ? "no" : "yes";
}

function internal(packet: Packet, context: Context): Outcome {
  const { servicePort } = context.match;
  return endpointsFor(servicePort, servicePort.internalTrafficPolicy).length === 0
    ? refused(context)
    : delivered(packet, { ...context, policy: servicePort.internalTrafficPolicy });
}

/**
 * Explains a packet to an external address. Under Local, pods and the node are sent to the cluster's endpoints
 * ("short circuit").
 */
function external(packet: Packet, context: Context): Outcome {
  const { servicePort } = context.match;
  if (servicePort.externalTrafficPolicy === "Local") {
    const { localDetector } = context.world.state.node.families[servicePort.family];
    const isInside = packet.sender === "node" || isLocalPod(packet, localDetector);
    if (isInside && servicePort.clusterEndpoints.length > 0) {
      return delivered(packet, { ...context, policy: "Cluster", isShortCircuit: true });
    }
  }
  const policy = servicePort.externalTrafficPolicy;
  return endpointsFor(servicePort, policy).length === 0
    ? refused(context)
    : delivered(packet, { ...context, policy });
}

/** Returns true if the rules take the sender for a pod of this node. */
export function isLocalPod(
  { sender, source }: Pick<Packet, "sender" | "source">,
  detector: LocalDetector | undefined,
): boolean {
  if (!detector) return false;
  return detector.type === "cidr" && source !== undefined
    ? cidrContains(detector.cidr, source)
    : sender === "pod";
}

function delivered(
  packet: Packet,
  context: Context & { readonly policy: TrafficPolicy; readonly isShortCircuit?: boolean },
): Outcome {
  const { match, world, policy, isShortCircuit = false } = context;
  const { servicePort } = match;
  const { node } = world.state;
  const chosen = endpointsFor(servicePort, policy);
  const masquerade = masqueradeOf(packet, context);
  const count = chosen.length === 1 ? "its one endpoint" : `one of ${chosen.length} endpoints`;
  return {
    ...NOTHING,
    verdict: "dnat",
    code: "delivered",
    reason: isShortCircuit
      ? `sent to ${count}: external traffic policy Local does not hold for pods and this node`
      : `sent to ${count} (${describePolicy(match)})`,
    rule: isShortCircuit ? world.rules.shortCircuit(match) : world.rules.delivers(match),
    policy,
    endpoints: chosen.map(({ address, port, hairpin }) => ({
      address,
      port,
      probability: 1 / chosen.length,
      masqueraded: masquerade.applies || (hairpin && address === packet.source),
    })),
    affinitySeconds: servicePort.affinitySeconds,
    scheduler: servicePort.scheduler ?? null,
    masquerade,
    // The node's own packets are not forwarded.
    ...servicePort.accelerated && node.acceleration && packet.sender !== "node" &&
      { acceleratedAfter: node.acceleration.packets },
  };
}

function refused({ match, world }: Context): Outcome {
  const { servicePort, frontend } = match;
  const isLocal = policyOf(servicePort, frontend) === "Local" && servicePort.hasEndpoints;
  return {
    ...NOTHING,
    verdict: isLocal ? "drop" : "reject",
    code: isLocal ? "no-local-endpoints" : "no-endpoints",
    reason: isLocal
      ? `${describePolicy(match)} allows endpoints of this node only, and none is here`
      : "no endpoint can take traffic",
    rule: world.rules.refuses(match),
    policy: policyOf(servicePort, frontend),
  };
}

function describePolicy({ servicePort, frontend }: Match): string {
  const kind = frontend.type === "clusterIP" ? "internal" : "external";
  return `${kind} traffic policy ${policyOf(servicePort, frontend)}`;
}

/** Explains a packet that is for no frontend: if the cluster IPs' range is guarded, it is rejected or dropped. */
function withoutFrontend(
  packet: Packet,
  { state, traits, ownAddresses, rules }: World,
): Outcome {
  const { address } = packet;
  const family = familyOf(address);
  const { guardedCIDRs, ownAddresses: unguarded } = state.node.families[family];
  const isGuarded = traits.guardsClusterIPs &&
    ![...ownAddresses, ...unguarded].includes(address);
  const holder = [...state.services.values()].flat()
    .find(({ clusterIPs }) => clusterIPs.includes(address));
  if (isGuarded && holder) {
    return {
      ...NOTHING,
      verdict: "reject",
      code: "undefined-port",
      reason: `${address} is a cluster IP of ${holder.name.split(":")[0]}, which has no port ` +
        `${packet.port}/${packet.protocol}`,
      rule: rules.undefinedPort(family),
    };
  }
  const range = guardedCIDRs.find((cidr) => cidrContains(cidr, address));
  if (isGuarded && range) {
    return {
      ...NOTHING,
      verdict: "drop",
      code: "unallocated-address",
      reason: `${address} is in the range of cluster IPs (${range}), and no Service has it`,
      rule: rules.unallocatedAddress(family),
    };
  }
  return {
    ...NOTHING,
    verdict: "none",
    code: "not-a-service",
    reason: nodePortElsewhere(packet, { state, ownAddresses }) ??
      `no Service has ${address} with port ${packet.port}/${packet.protocol} on this node; ` +
        "signpost leaves the packet alone",
    rule: null,
  };
}

/** Names the Service whose node port does not answer on this address of the node; `undefined`: none has it. */
function nodePortElsewhere(
  { address, port, protocol }: Packet,
  { state, ownAddresses }: Pick<World, "state" | "ownAddresses">,
): string | undefined {
  if (!ownAddresses.includes(address) && !isLoopback(address)) return undefined;
  const holder = nodePortHolder({ address, port, protocol }, state);
  if (!holder) return undefined;
  const { family } = holder;
  const open = new Set(
    ownAddresses.filter((each) =>
      familyOf(each) === family && takesNodePorts(each, { node: state.node, isOwn: true })
    ),
  );
  return `${port}/${protocol} is the node port of ${holder.name}, which answers on ` +
    `${open.size === 0 ? "no address of this node" : [...open].join(", ")}; signpost leaves ` +
    `packets to ${address} alone`;
}

/** Returns the service port whose node port a packet is for, whatever the address; `undefined`: none has it. */
function nodePortHolder(
  { address, port, protocol }: PacketDestination,
  { services }: DesiredState,
): DesiredServicePort | undefined {
  const family = familyOf(address);
  return [...services.values()].flat().find((each) =>
    each.nodePort === port && each.protocol === protocol && each.family === family
  );
}

/**
 * Explains a packet of this node to a node port on loopback, which no rule leads to an endpoint; `undefined` if
 * signpost does nothing for node ports there.
 */
function localhostOutcome(packet: Packet, world: World): Outcome | undefined {
  const { address, port, protocol, sender } = packet;
  const { node } = world.state;
  const family = familyOf(address);
  const { loopback } = node.families[family];
  if (loopback === undefined || !isLoopback(address) || sender !== "node") return undefined;
  const servicePort = nodePortHolder(packet, world.state);
  if (!servicePort) return undefined;
  const about = { ...NOTHING, servicePort: servicePort.name, frontend: "nodePort" } as const;
  if (loopback === "rejects" || protocol !== "tcp") {
    const what = loopback === "rejects"
      ? "nodePortAddresses does not name localhost"
      : `listeners serve TCP alone`;
    return {
      ...about,
      verdict: "reject",
      code: "not-on-localhost",
      reason: `node port ${port}/${protocol} is rejected on loopback: ${what}`,
      rule: world.rules.rejectsLocalhost({
        servicePort,
        frontend: { type: "nodePort", address: undefined, port },
      }),
    };
  }
  const endpoints = localhostEndpoints(servicePort, node);
  const listener = hostPort(LISTEN_ADDRESS[family], port);
  if (endpoints.length === 0 || address !== LISTEN_ADDRESS[family]) {
    const why = endpoints.length === 0
      ? "no endpoint can be used, so there is no listener"
      : `the listener is on ${listener} alone`;
    const reason = `${why}; signpost leaves the packet alone`;
    return { ...about, verdict: "none", code: "no-localhost-listener", reason, rule: null };
  }
  return {
    ...about,
    verdict: "none",
    code: "localhost-listener",
    reason: `signpost listens on ${listener}, and connects to an endpoint from the node's address`,
    rule: null,
    policy: servicePort.externalTrafficPolicy,
    endpoints: endpoints.map((endpoint) => ({
      address: endpoint.address,
      port: endpoint.port,
      probability: 1 / endpoints.length,
      masqueraded: true,
    })),
    affinitySeconds: servicePort.affinitySeconds,
  };
}

/** Tells if a connection that is delivered gets this node's address as its source, and why. */
function masqueradeOf(packet: Packet, { match, world }: Context): Masquerade {
  const { servicePort, frontend } = match;
  const { sender, source } = packet;
  const { masqueradeAll, families } = world.state.node;
  const { localDetector } = families[servicePort.family];
  if (frontend.type !== "clusterIP") {
    if (servicePort.externalTrafficPolicy === "Cluster") {
      return yes(
        "external-cluster-policy",
        "external traffic policy Cluster: the answer must come back through this node",
      );
    }
    if (sender === "node") {
      return yes("node-to-external", "this node's own traffic to an external address");
    }
  } else if (masqueradeAll) {
    return yes("masquerade-all", "masqueradeAll is set");
  } else if (localDetector && !isLocalPod(packet, localDetector)) {
    return yes(
      "not-a-local-pod",
      `the source is no pod of this node (${describeDetector(localDetector)})`,
    );
  }
  const own = usedEndpoints(servicePort).find(({ address, hairpin }) =>
    hairpin && address === source
  );
  if (own) {
    return {
      applies: false,
      code: "hairpin",
      reason: `only where the sender is sent back to itself (${own.address}, hairpin)`,
    };
  }
  return { applies: false, code: "none", reason: keptBecause(match, localDetector) };
}

/** Says how pods of this node are recognised. */
function describeDetector(detector: LocalDetector | undefined): string {
  switch (detector?.type) {
    case "cidr":
      return `pods are in ${detector.cidr}`;
    case "interface":
      return `pods come through ${detector.name}`;
    case "interfacePrefix":
      return `pods come through ${detector.prefix}*`;
    case undefined:
      return "no setting says which pods run on this node: set clusterCIDR";
  }
}

function keptBecause({ frontend }: Match, detector: LocalDetector | undefined): string {
  if (frontend.type !== "clusterIP") {
    return "external traffic policy Local keeps the client's address";
  }
  return detector
    ? `the source is a pod of this node (${describeDetector(detector)})`
    : "nothing asks for it: neither masqueradeAll nor clusterCIDR is set";
}

function yes(code: Masquerade["code"], reason: string): Masquerade {
  return { applies: true, code, reason };
}
