/**
 * The ways to reach a service port, and which of them a packet takes.
 *
 * @module
 */
import { answersOnLoopback } from "../backend/iptables/script/fixed_rules.ts";
import { cidrContains, familyOf } from "../model/address.ts";
import type { DesiredServicePort, DesiredState } from "../model/desired.ts";
import type { Protocol, TrafficPolicy } from "../model/objects.ts";

/** How a packet addresses a Service. */
export type FrontendType = "clusterIP" | "externalIP" | "loadBalancerIP" | "nodePort";

/** One address, or the node port, of a service port. */
export interface Frontend {
  readonly type: FrontendType;
  /** Canonical; `undefined` for a node port, which has all of the node's addresses. */
  readonly address: string | undefined;
  readonly port: number;
}

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

/** All frontends that a service port holds, cluster IPs first. */
export function frontendsOf(servicePort: DesiredServicePort): Frontend[] {
  const { clusterIPs, externalIPs, loadBalancerIPs, nodePort, port } = servicePort;
  const at = (type: FrontendType) => (address: string) => ({ type, address, port });
  return [
    ...clusterIPs.map(at("clusterIP")),
    ...loadBalancerIPs.map(at("loadBalancerIP")),
    ...externalIPs.map(at("externalIP")),
    ...nodePort === 0 ? [] : [{ type: "nodePort" as const, address: undefined, port: nodePort }],
  ];
}

/** The policy that traffic to a frontend follows. */
export function policyOf(servicePort: DesiredServicePort, { type }: Frontend): TrafficPolicy {
  return type === "clusterIP"
    ? servicePort.internalTrafficPolicy
    : servicePort.externalTrafficPolicy;
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
