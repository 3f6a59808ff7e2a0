/**
 * Which virtual IPs must not lead to the node's own ports.
 *
 * A virtual IP can be an address of the node: kube-proxy's ipvs mode puts all of them on an interface,
 * routers that are told of load balancers by BGP want them on `lo`, some clouds add routes. What is
 * addressed to one and is no port of a Service would reach whatever listens on all of the node's
 * addresses, as sshd does.
 *
 * @module
 */
import type { DesiredNode, DesiredServicePort } from "../model/kernel/desired.ts";

/**
 * The external and load-balancer IPs of a service port that are guarded: not those that the node has
 * for other reasons, where its own programs are meant to be reached. Cluster IPs always are.
 */
export function guardedAddresses(
  { family, externalIPs, loadBalancerIPs }: DesiredServicePort,
  { families }: DesiredNode,
): string[] {
  const own = families[family].ownAddresses;
  return [...externalIPs, ...loadBalancerIPs].filter((address) => !own.includes(address));
}
