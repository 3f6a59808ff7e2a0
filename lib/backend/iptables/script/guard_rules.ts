/**
 * The rules that keep virtual IPs from leading to the node's own ports.
 *
 * A virtual IP can be an address of the node: kube-proxy's ipvs mode puts all of them on an interface,
 * routers that are told of load balancers by BGP want them on `lo`, some clouds add routes. What is
 * addressed to one and is no port of a Service would reach whatever listens on all of the node's
 * addresses, as sshd does.
 *
 * @module
 */
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { Family } from "../../../model/values/address.ts";
import { VIRTUAL_IP_CHAIN } from "./names.ts";
import { comment, host, reject, rule } from "./rule.ts";
import type { ServiceRules, SharedRule } from "./ruleset.ts";

/** For the external and load-balancer IPs of one Service: each once, however many ports it has. */
export function serviceGuards(ports: readonly DesiredServicePort[]): ServiceRules {
  const [first] = ports;
  if (!first) return { chains: new Map(), shared: [] };
  const { family, name } = first;
  const note = `${name.split(":")[0]} has no such port`;
  const addresses = new Set(
    ports.flatMap(({ externalIPs, loadBalancerIPs }) => [...externalIPs, ...loadBalancerIPs]),
  );
  return {
    chains: new Map(),
    shared: [...addresses].map((address) => refuse(host(family, address), { note, family })),
  };
}

/** For cluster IPs, by their ranges; before all, the node's own programs are within reach. */
export function nodeGuards({ families }: DesiredNode, family: Family): ServiceRules {
  const { guardedCIDRs, ownAddresses } = families[family];
  const note = "kubernetes cluster IPs have no such port";
  const own = ownAddresses.map((address): SharedRule => ({
    table: "filter",
    chain: VIRTUAL_IP_CHAIN,
    rule: `-d ${host(family, address)} -j RETURN`,
    place: "first",
  }));
  return {
    chains: new Map(),
    shared: [...own, ...guardedCIDRs.map((cidr) => refuse(cidr, { note, family }))],
  };
}

function refuse(
  destination: string,
  { note, family }: { readonly note: string; readonly family: Family },
): SharedRule {
  return {
    table: "filter",
    chain: VIRTUAL_IP_CHAIN,
    rule: rule(`-d ${destination}`, comment(note), reject(family)),
    place: "last",
  };
}
