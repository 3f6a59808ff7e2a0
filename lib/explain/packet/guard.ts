/**
 * What becomes of packets that are for no Service.
 *
 * @module
 */
import { cidrContains, familyOf, isLoopback } from "../../model/values/address.ts";
import { takesNodePorts } from "../../policy/node.ts";
import { NOTHING, type Outcome, type Packet, type World } from "./outcome.ts";

/**
 * Where addresses of the cluster IPs' range are guarded, what is no frontend is rejected or dropped.
 */
export function withoutFrontend(
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
  const family = familyOf(address);
  if (!ownAddresses.includes(address) && !isLoopback(address)) return undefined;
  const holder = [...state.services.values()].flat().find((each) =>
    each.nodePort === port && each.protocol === protocol && each.family === family
  );
  if (!holder) return undefined;
  const open = new Set(
    ownAddresses.filter((each) =>
      familyOf(each) === family && takesNodePorts(each, { node: state.node, isOwn: true })
    ),
  );
  return `${port}/${protocol} is the node port of ${holder.name}, which answers on ` +
    `${open.size === 0 ? "no address of this node" : [...open].join(", ")}; signpost leaves ` +
    `packets to ${address} alone`;
}
