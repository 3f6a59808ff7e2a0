/**
 * What becomes of the first packet of a connection on this node, by the desired state alone.
 *
 * The order is that of the rules: the firewall of load-balancer IPs, virtual IPs, node ports,
 * refusals, the guard of the cluster IPs' range.
 *
 * @module
 */
import type { Sender } from "../../config/command.ts";
import { cidrContains, familyOf } from "../../model/address.ts";
import type { DesiredServicePort, Destination, LocalDetector } from "../../model/desired.ts";
import type { TrafficPolicy } from "../../model/objects.ts";
import {
  findFrontend,
  type FrontendType,
  type Match,
  type MatchOptions,
  type PacketDestination,
  policyOf,
} from "./frontend.ts";
import { type Masquerade, masqueradeOf } from "./masquerade.ts";
import type { RuleNames } from "./rules.ts";

/** The first packet of a connection. */
export interface Packet extends PacketDestination {
  readonly sender: Sender;
  /** Canonical; `undefined`: not known. */
  readonly source: string | undefined;
}

/** Why a packet meets its verdict. */
export type OutcomeCode =
  | "delivered"
  | "no-endpoints"
  | "no-local-endpoints"
  | "source-range"
  | "undefined-port"
  | "unallocated-address"
  | "not-a-service";

/** An endpoint that a connection may be sent to. */
export interface PossibleEndpoint {
  readonly address: string;
  readonly port: number;
  /** Of a new connection, 0 to 1. */
  readonly probability: number;
  /** Whether its connections are masqueraded: hairpin ones are, whatever else holds. */
  readonly masqueraded: boolean;
}

/** What becomes of a packet. */
export interface Outcome {
  readonly verdict: "dnat" | "reject" | "drop" | "none";
  readonly code: OutcomeCode;
  /** One sentence. */
  readonly reason: string;
  /** The rule or element that decides; `null`: none does. */
  readonly rule: string | null;
  readonly servicePort: string | null;
  readonly frontend: FrontendType | null;
  /** The policy whose endpoints are used, not always the one that is configured. */
  readonly policy: TrafficPolicy | null;
  readonly endpoints: readonly PossibleEndpoint[];
  /** Seconds that a client stays on its endpoint; 0: each connection is on its own. */
  readonly affinitySeconds: number;
  readonly masquerade: Masquerade | null;
  /** What the verdict depends on, where the packet's source is not known. */
  readonly conditions: readonly string[];
}

/** What a packet meets. */
export interface World extends MatchOptions {
  readonly rules: RuleNames;
}

/** Works out what becomes of a packet. */
export function explainPacket(packet: Packet, world: World): Outcome {
  const { verdict, code, reason, rule, ...rest } = decide(packet, world);
  return { verdict, code, reason, rule, ...rest };
}

function decide(packet: Packet, world: World): Outcome {
  const match = findFrontend(packet, world);
  if (!match) return withoutFrontend(packet, world);
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

const NOTHING = {
  servicePort: null,
  frontend: null,
  policy: null,
  endpoints: [],
  affinitySeconds: 0,
  masquerade: null,
  conditions: [],
} as const;

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
  return endpointsOf(servicePort, servicePort.internalTrafficPolicy).length === 0
    ? refused(context)
    : delivered(packet, { ...context, policy: servicePort.internalTrafficPolicy });
}

/** Under Local, pods and the node are sent to the cluster's endpoints ("short circuit"). */
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
  return endpointsOf(servicePort, policy).length === 0
    ? refused(context)
    : delivered(packet, { ...context, policy });
}

/** Whether the rules take the sender for a pod of this node. */
export function isLocalPod(
  { sender, source }: Pick<Packet, "sender" | "source">,
  detector: LocalDetector | undefined,
): boolean {
  if (!detector) return false;
  return detector.type === "cidr" && source !== undefined
    ? cidrContains(detector.cidr, source)
    : sender === "pod";
}

function endpointsOf(port: DesiredServicePort, policy: TrafficPolicy): readonly Destination[] {
  return policy === "Local" ? port.localEndpoints : port.clusterEndpoints;
}

function delivered(
  packet: Packet,
  context: Context & { readonly policy: TrafficPolicy; readonly isShortCircuit?: boolean },
): Outcome {
  const { match, world, policy, isShortCircuit = false } = context;
  const { servicePort } = match;
  const { node } = world.state;
  const { localDetector } = node.families[servicePort.family];
  const chosen = endpointsOf(servicePort, policy);
  const masquerade = masqueradeOf(packet, {
    match,
    masqueradeAll: node.masqueradeAll,
    localDetector,
    isLocalPod: isLocalPod(packet, localDetector),
  });
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
    endpoints: chosen.map(({ address, port, local }) => ({
      address,
      port,
      probability: 1 / chosen.length,
      masqueraded: masquerade.applies || (local && address === packet.source),
    })),
    affinitySeconds: servicePort.affinitySeconds,
    masquerade,
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

/** The guard: what is no frontend, but of the cluster IPs' range. Only nftables has it. */
function withoutFrontend(packet: Packet, { state, mode, ownAddresses, rules }: World): Outcome {
  const { address } = packet;
  const family = familyOf(address);
  const isGuarded = mode === "nftables" && !ownAddresses.includes(address);
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
  const range = state.node.families[family].serviceCIDRs.find((cidr) =>
    cidrContains(cidr, address)
  );
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
    reason: `no Service has ${address} with port ${packet.port}/${packet.protocol} on this node; ` +
      "signpost leaves the packet alone",
    rule: null,
  };
}
