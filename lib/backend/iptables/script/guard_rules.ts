/**
 * Builds the rules that keep virtual IPs from leading to the node's own ports.
 *
 * A virtual IP can be an address of the node: of kube-proxy's ipvs interface, on `lo` for BGP, or by a cloud's
 * routes. A packet to a port that no Service has would reach a listener on all addresses, such as sshd.
 * @module
 */
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { Family } from "../../../model/values/address.ts";
import { VIRTUAL_IP_CHAIN } from "./names.ts";
import { comment, host, reject, rule } from "./rule.ts";
import type { ServiceRules, SharedRule } from "./ruleset.ts";

/** Returns the guards of a Service's external and load-balancer IPs, each address once. */
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

/** Returns the guards of cluster IP ranges. Rules before them keep the node's own addresses reachable. */
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
