/**
 * The ways to reach a service port, and which of them a packet takes.
 *
 * @module
 */
import { answersOnLoopback } from "../backend/iptables/script/fixed_rules.ts";
import { cidrContains, familyOf } from "../model/values/address.ts";
import type { DesiredServicePort, DesiredState } from "../model/kernel/desired.ts";
import type { Protocol } from "../model/cluster/objects.ts";
import { type Frontend, frontendsOf } from "../policy/frontend.ts";

/** Where a packet goes to. */
export interface PacketDestination {
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/** A frontend and the service port that holds it. */
export interface Match {
  readonly servicePort: DesiredServicePort;
  readonly frontend: Frontend;
}

/** What it takes to find the frontend of a packet. */
export interface MatchOptions {
  readonly state: DesiredState;
  readonly mode: "nftables" | "iptables";
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
  return nodePort && takesNodePorts(address, options) ? nodePort : undefined;
}

/** Whether node ports answer on an address. */
export function takesNodePorts(
  address: string,
  { state: { node }, mode, ownAddresses }: MatchOptions,
): boolean {
  const family = familyOf(address);
  const setting = node.families[family].nodePortAddresses;
  if (isLoopback(address)) return mode === "iptables" && answersOnLoopback(node, family);
  if (!ownAddresses.includes(address)) return false;
  return setting.type === "all" || setting.cidrs.some((cidr) => cidrContains(cidr, address));
}

function isLoopback(address: string): boolean {
  return familyOf(address) === 4 ? address.startsWith("127.") : address === "::1";
}
