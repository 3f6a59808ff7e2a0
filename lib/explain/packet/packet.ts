/**
 * What becomes of the first packet of a connection on this node, by the desired state alone.
 *
 * The order is that of the rules: the firewall of load-balancer IPs, virtual IPs, node ports,
 * refusals, the guard of the cluster IPs' range.
 *
 * @module
 */
import { cidrContains } from "../../model/values/address.ts";
import { endpointsFor, type LocalDetector } from "../../model/kernel/desired.ts";
import type { TrafficPolicy } from "../../model/cluster/objects.ts";
import { findFrontend } from "../frontend.ts";
import { type Match, policyOf } from "../../policy/frontend.ts";
import { withoutFrontend } from "./guard.ts";
import { localhostOutcome } from "./localhost.ts";
import { masqueradeOf } from "./masquerade.ts";
import { NOTHING, type Outcome, type Packet, type World } from "./outcome.ts";

/** Works out what becomes of a packet. */
export function explainPacket(packet: Packet, world: World): Outcome {
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
  const { localDetector } = node.families[servicePort.family];
  const chosen = endpointsFor(servicePort, policy);
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
