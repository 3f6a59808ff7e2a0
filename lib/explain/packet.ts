/**
 * Explains how this node handles the first packet of a connection, by the desired state alone.
 *
 * The order is that of the rules: the firewall of load-balancer IPs, virtual IPs, node ports, refusals, the guard
 * of the cluster IPs' range.
 */
import type { RuleNames } from "../backend/backend.ts";
import type { PacketDestination, PacketTarget, Sender } from "../config/command.ts";
import { hostPort, serviceOf } from "../model/cluster/names.ts";
import {
  type DesiredServicePort,
  type DesiredState,
  type Destination,
  type LocalDetector,
  usedEndpoints,
} from "../model/kernel/desired.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import type { Finding, ObjectsOrigin } from "../model/status.ts";
import { cidrContains, type Family, familyOf, isLoopback } from "../model/values/address.ts";
import {
  decide,
  frontendsOf,
  LISTEN_ADDRESS,
  localhostEndpoints,
  type Match,
  policyOf,
  rangesOf,
} from "../policy/frontend.ts";
import { takesNodePorts } from "../policy/node.ts";
import type { State } from "../policy/state.ts";
import { type Masquerade, type Outcome, PASSIVE } from "./report.ts";

/** The first packet of a connection. */
interface SentPacket extends Omit<PacketTarget, "type"> {
  readonly sender: Sender;
}

/** The desired state, and the names of its rules. */
export interface World {
  readonly desired: DesiredState;
  readonly traits: ModeTraits;
  /** All addresses of this node, loopback included. */
  readonly ownAddresses: readonly string[];
  readonly rules: RuleNames;
}

/** All facts for an answer. */
export type Known = World & State & {
  readonly nodeName: string;
  readonly origin: ObjectsOrigin;
  readonly externalIPsAllowed: boolean;
  readonly nodeFindings: readonly Finding[];
};

/** The outcome of a packet that signpost leaves alone, in the order of the JSON. */
const NOTHING: Outcome = {
  verdict: "none",
  code: "not-a-service",
  reason: "",
  rule: null,
  servicePort: null,
  frontend: null,
  policy: null,
  endpoints: [],
  affinitySeconds: 0,
  scheduler: null,
  masquerade: null,
  conditions: [],
};

/** Explains a packet. For a pod without an address, the findings on undetected pods decide. */
export function explainSent(
  packet: SentPacket,
  known: World & Pick<Known, "nodeFindings">,
): Outcome {
  const outcome = explainPacket(packet, known);
  if (packet.sender !== "pod" || packet.source !== undefined) return outcome;
  const { all, some } = undetectedPods(familyOf(packet.address), known);
  if (all.length + some.length === 0) return outcome;
  const asExternal = explainPacket({ ...packet, sender: "external" }, known);
  if (all.length > 0) return asExternal;
  if (asExternal.verdict === outcome.verdict || asExternal.verdict === "none") return outcome;
  const condition = `pods outside of ${some[0]?.where} are ${PASSIVE[asExternal.verdict]}`;
  return { ...outcome, conditions: [...outcome.conditions, condition] };
}

/** Returns the findings of an IP family on this node's pods that the rules do not detect. */
export function undetectedPods(
  family: Family,
  { desired: { node }, nodeFindings }: Pick<World, "desired"> & Pick<Known, "nodeFindings">,
): { readonly all: readonly Finding[]; readonly some: readonly Finding[] } {
  const { localDetector } = node.families[family];
  const found = (kind: string) =>
    nodeFindings.filter(({ id, where }) =>
      id === kind && localDetector?.type === "cidr" && where === localDetector.cidr
    );
  return { all: found("pod-cidr-outside-detected-range"), some: found(UNDETECTED_POD) };
}

/** The kind of finding on a single pod that the rules do not detect. */
export const UNDETECTED_POD = "pod-outside-detected-range";

export function explainPacket(packet: SentPacket, world: World): Outcome {
  const match = findFrontend(packet, world);
  return match
    ? atFrontend(packet, { match, world })
    : onLoopback(packet, world) ?? withoutFrontend(packet, world);
}

/** Returns the service ports of a packet's family and protocol. */
export function portsFor(
  { address, protocol }: PacketDestination,
  { services }: DesiredState,
): DesiredServicePort[] {
  const family = familyOf(address);
  return [...services.values()].flat()
    .filter((each) => each.family === family && each.protocol === protocol);
}

/** Returns the frontend of a packet. As in the rules, virtual IPs take precedence over node ports. */
export function findFrontend(
  packet: PacketDestination,
  { desired, ownAddresses }: Pick<World, "desired" | "ownAddresses">,
): Match | undefined {
  const { address, port } = packet;
  const matches = portsFor(packet, desired).flatMap((servicePort) =>
    frontendsOf(servicePort).filter((each) => each.port === port)
      .map((frontend): Match => ({ servicePort, frontend }))
  );
  const isOwn = ownAddresses.includes(address);
  return matches.find(({ frontend }) => frontend.address === address) ??
    (takesNodePorts(address, { node: desired.node, isOwn })
      ? matches.find(({ frontend }) => frontend.address === undefined)
      : undefined);
}

function atFrontend(
  packet: SentPacket,
  { match, world }: { readonly match: Match; readonly world: World },
): Outcome {
  const { servicePort, frontend } = match;
  const { sender, source } = packet;
  const { desired: { node }, rules } = world;
  const { localDetector } = node.families[servicePort.family];
  const isLocal = sender === "node" || isLocalPod(packet, localDetector);
  const decision = decide(match, { source, isLocal });
  const ranges = source === undefined ? rangesOf(match) : [];
  const about: Outcome = {
    ...NOTHING,
    servicePort: servicePort.name,
    frontend: frontend.type,
    ...decision.reason !== "source-range" && { policy: decision.policy },
    conditions: ranges.length > 0 ? [`sources outside of ${ranges.join(", ")} are dropped`] : [],
  };
  const which = frontend.type === "clusterIP" ? "internal" : "external";
  const described = `${which} traffic policy ${policyOf(servicePort, frontend)}`;
  switch (decision.reason) {
    case "source-range": {
      const allowed = decision.ranges.join(", ");
      return {
        ...about,
        verdict: "drop",
        code: decision.reason,
        reason: `${source} is in none of spec.loadBalancerSourceRanges (${allowed})`,
        rule: rules.firewall(match),
      };
    }
    case "no-endpoints":
      return {
        ...about,
        verdict: "reject",
        code: decision.reason,
        reason: "no endpoint can take traffic",
        rule: rules.refuses(match),
      };
    case "no-local-endpoints":
      return {
        ...about,
        verdict: "drop",
        code: decision.reason,
        reason: `${described} allows endpoints of this node only, and none is here`,
        rule: rules.refuses(match),
      };
    case "short-circuit":
      return {
        ...about,
        ...deliveredTo(decision.endpoints, packet, { match, world }),
        reason: `sent to ${oneOf(decision.endpoints)}: external traffic policy Local does not ` +
          "hold for pods and this node",
        rule: rules.shortCircuit(match),
      };
    case "policy":
      return {
        ...about,
        ...deliveredTo(decision.endpoints, packet, { match, world }),
        reason: `sent to ${oneOf(decision.endpoints)} (${described})`,
        rule: rules.delivers(match),
      };
  }
}

function oneOf({ length }: readonly unknown[]): string {
  return length === 1 ? "its one endpoint" : `one of ${length} endpoints`;
}

/** Returns the common part of the outcomes of delivered packets. */
function deliveredTo(
  endpoints: readonly Destination[],
  packet: SentPacket,
  { match, world }: { readonly match: Match; readonly world: World },
) {
  const { servicePort } = match;
  const { acceleration } = world.desired.node;
  const masquerade = masqueradeOf(packet, { match, world });
  return {
    verdict: "dnat",
    code: "delivered",
    endpoints: endpoints.map(({ address, port, hairpin }) => ({
      address,
      port,
      probability: 1 / endpoints.length,
      masqueraded: masquerade.applies || (hairpin && address === packet.source),
    })),
    affinitySeconds: servicePort.affinitySeconds,
    scheduler: servicePort.scheduler ?? null,
    masquerade,
    // The node's own packets are not forwarded.
    ...servicePort.accelerated && acceleration && packet.sender !== "node" &&
      { acceleratedAfter: acceleration.packets },
  } as const;
}

/** Returns true if the rules detect the sender as a pod of this node. */
export function isLocalPod(
  { sender, source }: Pick<SentPacket, "sender" | "source">,
  detector: LocalDetector | undefined,
): boolean {
  if (!detector) return false;
  return detector.type === "cidr" && source !== undefined
    ? cidrContains(detector.cidr, source)
    : sender === "pod";
}

/** Decides if a delivered connection gets this node's address as its source, and gives the reason. */
function masqueradeOf(
  packet: SentPacket,
  { match, world }: { readonly match: Match; readonly world: World },
): Masquerade {
  const { servicePort, frontend } = match;
  const { masqueradeAll, families } = world.desired.node;
  const detector = families[servicePort.family].localDetector;
  const isInternal = frontend.type === "clusterIP";
  const always = (code: Masquerade["code"], reason: string) => ({ applies: true, code, reason });
  if (isInternal) {
    if (masqueradeAll) return always("masquerade-all", "masqueradeAll is set");
    if (detector && !isLocalPod(packet, detector)) {
      const reason = `the source is not a pod of this node (${describeDetector(detector)})`;
      return always("not-a-local-pod", reason);
    }
  } else if (servicePort.externalTrafficPolicy === "Cluster") {
    return always(
      "external-cluster-policy",
      "external traffic policy Cluster: the answer must return through this node",
    );
  } else if (packet.sender === "node") {
    return always("node-to-external", "this node's own traffic to an external address");
  }
  const self = usedEndpoints(servicePort).find(({ address, hairpin }) =>
    hairpin && address === packet.source
  );
  if (self) {
    const reason = `only if the sender reaches itself (${self.address}, hairpin)`;
    return { applies: false, code: "hairpin", reason };
  }
  const reason = !isInternal
    ? "external traffic policy Local keeps the client's address"
    : detector
    ? `the source is a pod of this node (${describeDetector(detector)})`
    : "masqueradeAll and clusterCIDR are not set";
  return { applies: false, code: "none", reason };
}

/** Describes how pods of this node are detected. */
function describeDetector(detector: LocalDetector): string {
  switch (detector.type) {
    case "cidr":
      return `pods are in ${detector.cidr}`;
    case "interface":
      return `packets of pods arrive at ${detector.name}`;
    case "interfacePrefix":
      return `packets of pods arrive at ${detector.prefix}*`;
  }
}

/** Explains a packet to a node port on loopback without a rule; `undefined`: signpost does not handle it. */
function onLoopback(packet: SentPacket, { desired, rules }: World): Outcome | undefined {
  const { address, port, protocol, sender } = packet;
  const family = familyOf(address);
  const { loopback } = desired.node.families[family];
  if (loopback === undefined || !isLoopback(address) || sender !== "node") return undefined;
  const servicePort = portsFor(packet, desired).find(({ nodePort }) => nodePort === port);
  if (!servicePort) return undefined;
  const about: Outcome = { ...NOTHING, servicePort: servicePort.name, frontend: "nodePort" };
  if (loopback === "rejects" || protocol !== "tcp") {
    const why = loopback === "rejects"
      ? "nodePortAddresses does not name localhost"
      : "listeners serve TCP alone";
    return {
      ...about,
      verdict: "reject",
      code: "not-on-localhost",
      reason: `node port ${port}/${protocol} is rejected on loopback: ${why}`,
      rule: rules.rejectsLocalhost({
        servicePort,
        frontend: { type: "nodePort", address: undefined, port },
      }),
    };
  }
  const endpoints = localhostEndpoints(servicePort, desired.node);
  const listener = hostPort(LISTEN_ADDRESS[family], port);
  if (endpoints.length === 0 || address !== LISTEN_ADDRESS[family]) {
    const why = endpoints.length === 0
      ? "no endpoint can be used, so there is no listener"
      : `the listener is on ${listener} alone`;
    const reason = `${why}; signpost leaves the packet alone`;
    return { ...about, code: "no-localhost-listener", reason };
  }
  return {
    ...about,
    code: "localhost-listener",
    reason: `signpost listens on ${listener}, and connects to an endpoint from the node's address`,
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

/** Explains a packet without a frontend: the guards of 127.0.0.0/8 and of cluster IPs' ranges may refuse it. */
function withoutFrontend(packet: SentPacket, world: World): Outcome {
  const { desired, traits, ownAddresses, rules } = world;
  const { address, port, protocol } = packet;
  const family = familyOf(address);
  if (family === 4 && isLoopback(address) && packet.sender !== "node") {
    return {
      ...NOTHING,
      verdict: "drop",
      code: "localhost-guarded",
      reason: "127.0.0.0/8 is local to each host: the node drops packets that arrive for it",
      rule: rules.guardsLocalhost(),
    };
  }
  const { guardedCIDRs, guardedServers } = desired.node.families[family];
  if (traits.guardsClusterIPs && ![...ownAddresses, ...guardedServers].includes(address)) {
    const holder = [...desired.services.values()].flat()
      .find(({ clusterIPs }) => clusterIPs.includes(address));
    if (holder) {
      return {
        ...NOTHING,
        verdict: "reject",
        code: "undefined-port",
        reason: `${address} is a cluster IP of ${serviceOf(holder.name)}, which has no port ` +
          `${port}/${protocol}`,
        rule: rules.undefinedPort(family),
      };
    }
    const range = guardedCIDRs.find((cidr) => cidrContains(cidr, address));
    if (range) {
      return {
        ...NOTHING,
        verdict: "drop",
        code: "unallocated-address",
        reason: `${address} is in the range of cluster IPs (${range}), and no Service has it`,
        rule: rules.unallocatedAddress(family),
      };
    }
  }
  return {
    ...NOTHING,
    reason: nodePortElsewhere(packet, world) ??
      `no Service has ${address} with port ${port}/${protocol} on this node; signpost leaves the ` +
        "packet alone",
  };
}

/** Names the Service whose node port is not open on this address; `undefined`: no Service has this node port. */
function nodePortElsewhere(packet: SentPacket, world: World): string | undefined {
  const { desired, ownAddresses } = world;
  const { address, port, protocol } = packet;
  if (!ownAddresses.includes(address) && !isLoopback(address)) return undefined;
  const holder = portsFor(packet, desired).find(({ nodePort }) => nodePort === port);
  if (!holder) return undefined;
  const open = new Set(nodePortAddresses(holder.family, world));
  return `${port}/${protocol} is the node port of ${holder.name}, which answers on ` +
    `${
      open.size === 0 ? "none of this node's addresses" : [...open].join(", ")
    }; signpost leaves ` +
    `packets to ${address} alone`;
}

/** Returns the addresses of this node that take node ports. An address of the Node object may be there twice. */
export function nodePortAddresses(
  family: Family,
  { desired: { node }, ownAddresses }: Pick<World, "ownAddresses"> & {
    readonly desired: Pick<DesiredState, "node">;
  },
): string[] {
  return ownAddresses.filter((each) =>
    familyOf(each) === family && takesNodePorts(each, { node, isOwn: true })
  );
}
