/**
 * The ways to reach a service port, and which of them a packet takes.
 *
 * @module
 */
import { familyOf } from "../model/values/address.ts";
import type { DesiredState } from "../model/kernel/desired.ts";
import type { Protocol } from "../model/cluster/objects.ts";
import { frontendsOf, type Match } from "../policy/frontend.ts";
import { takesNodePorts } from "../policy/node.ts";

/** Where a packet goes to. */
export interface PacketDestination {
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/** What it takes to find the frontend of a packet. */
export interface MatchOptions {
  readonly state: DesiredState;
  /** All addresses of this node, loopback included. */
  readonly ownAddresses: readonly string[];
}

/** The frontend that a packet is for; virtual IPs come before node ports, as in the rules. */
export function findFrontend(
  { address, port, protocol }: PacketDestination,
  options: MatchOptions,
): Match | undefined {
  const family = familyOf(address);
  let nodePort: Match | undefined;
  for (const servicePort of [...options.state.services.values()].flat()) {
    if (servicePort.family !== family || servicePort.protocol !== protocol) continue;
    for (const frontend of frontendsOf(servicePort)) {
      if (frontend.port !== port) continue;
      if (frontend.address === address) return { servicePort, frontend };
      if (frontend.address === undefined) nodePort = { servicePort, frontend };
    }
  }
  const { state: { node }, ownAddresses } = options;
  const isOwn = ownAddresses.includes(address);
  return nodePort && takesNodePorts(address, { node, isOwn }) ? nodePort : undefined;
}
