/**
 * Builds one service port's rules in shared chains: they send packets to its own chains, or refuse
 * them.
 *
 * @module
 */
import { type DesiredServicePort, endpointsFor } from "../../../model/kernel/desired.ts";
import { HAIRPIN_CHAIN, type Table } from "./names.ts";
import { comment, host, port, reject, rule } from "./rule.ts";
import type { SharedRule } from "./ruleset.ts";
import { isUsed, policyChain, type ServiceContext } from "./service_context.ts";

/** Returns all rules of one service port in shared chains. */
export function sharedRules(context: ServiceContext): SharedRule[] {
  return [
    ...clusterIPRules(context),
    ...externalAddressRules(context),
    ...refusalRules(context),
    ...firewallDrops(context),
    ...nodePortRules(context),
    ...healthCheckRules(context),
    ...hairpinRules(context),
  ];
}

function clusterIPRules(context: ServiceContext): SharedRule[] {
  const { servicePort } = context;
  const policy = servicePort.internalTrafficPolicy;
  const { table, note, target } = isUsed(context, policy)
    ? { table: "nat" as const, note: "cluster IP", target: `-j ${policyChain(context, policy)}` }
    : { table: "filter" as const, ...refusal(servicePort) };
  return servicePort.clusterIPs.map((address) =>
    toAddress(context, { table, chain: "KUBE-SERVICES", address, note, target })
  );
}

/** Returns the rules of external IPs and load-balancer IPs. */
function externalAddressRules(context: ServiceContext): SharedRule[] {
  const { servicePort: { externalIPs, loadBalancerIPs }, names } = context;
  if (!context.usesExternalChain) return [];
  const capture = (note: string, chain: string) => (address: string) =>
    toAddress(context, {
      table: "nat",
      chain: "KUBE-SERVICES",
      address,
      note,
      target: `-j ${chain}`,
    });
  const ofLoadBalancers = context.usesFirewall ? names.firewall : names.external;
  return [
    ...externalIPs.map(capture("external IP", names.external)),
    ...loadBalancerIPs.map(capture("loadbalancer IP", ofLoadBalancers)),
  ];
}

/**
 * Refuses external traffic if its policy has no endpoint here. Packets of pods and the node may
 * have an endpoint's address already, and then match none of these rules.
 */
function refusalRules(context: ServiceContext): SharedRule[] {
  const { servicePort } = context;
  const { externalIPs, loadBalancerIPs, externalTrafficPolicy, nodePort, protocol } = servicePort;
  if (isUsed(context, externalTrafficPolicy)) return [];
  const table = "filter";
  const chain = "KUBE-EXTERNAL-SERVICES";
  const { note, target } = refusal(servicePort);
  const rules = [...externalIPs, ...loadBalancerIPs].map((address) =>
    toAddress(context, { table, chain, address, note, target })
  );
  if (nodePort !== 0) {
    const match = `-m addrtype --dst-type LOCAL ${port(protocol, nodePort)}`;
    const words = [`-p ${protocol}`, comment(`${servicePort.name} ${note}`), match, target];
    rules.push({ table, chain, rule: rule(...words), place: "first" });
  }
  return rules;
}

/**
 * Drops packets that the Service's firewall chain did not accept: they still have the load
 * balancer's address.
 */
function firewallDrops(context: ServiceContext): SharedRule[] {
  if (!context.usesFirewall) return [];
  return context.servicePort.loadBalancerIPs.map((address) =>
    toAddress(context, {
      table: "filter",
      chain: "KUBE-PROXY-FIREWALL",
      address,
      note: `traffic not accepted by ${context.names.firewall}`,
      target: "-j DROP",
    })
  );
}

function nodePortRules({ servicePort, names, usesExternalChain }: ServiceContext): SharedRule[] {
  const { protocol, nodePort, name } = servicePort;
  if (nodePort === 0 || !usesExternalChain) return [];
  const words = [`-p ${protocol}`, comment(name), port(protocol, nodePort), `-j ${names.external}`];
  return [{ table: "nat", chain: "KUBE-NODEPORTS", rule: rule(...words), place: "last" }];
}

/** Accepts the load balancer's probe, with or without local endpoints. */
function healthCheckRules({ servicePort }: ServiceContext): SharedRule[] {
  const { healthCheckNodePort = 0, name } = servicePort;
  if (healthCheckNodePort === 0) return [];
  const note = comment(`${name} health check node port`);
  const words = ["-p tcp", note, port("tcp", healthCheckNodePort), "-j ACCEPT"];
  return [{ table: "filter", chain: "KUBE-NODEPORTS", rule: rule(...words), place: "last" }];
}

/** Masquerades hairpin connections, which would otherwise not get their answers. */
function hairpinRules(context: ServiceContext): SharedRule[] {
  const { servicePort: { family } } = context;
  const own = new Set<string>();
  for (const policy of ["Cluster", "Local"] as const) {
    for (
      const endpoint of isUsed(context, policy) ? endpointsFor(context.servicePort, policy) : []
    ) {
      if (endpoint.hairpin) own.add(host(family, endpoint.address));
    }
  }
  return [...own].map((address) => ({
    table: "nat",
    chain: HAIRPIN_CHAIN,
    rule: `-s ${address} -d ${address} -j KUBE-MARK-MASQ`,
    place: "first",
  }));
}

/** Returns the treatment of connections without an endpoint. */
function refusal({ hasEndpoints, family }: DesiredServicePort): { note: string; target: string } {
  if (hasEndpoints) return { note: "has no local endpoints", target: "-j DROP" };
  return { note: "has no endpoints", target: reject(family) };
}

function toAddress(
  { servicePort }: ServiceContext,
  to: {
    readonly table: Table;
    readonly chain: string;
    readonly address: string;
    readonly note: string;
    readonly target: string;
  },
): SharedRule {
  const { family, protocol, name } = servicePort;
  return {
    table: to.table,
    chain: to.chain,
    rule: rule(
      `-d ${host(family, to.address)}`,
      `-p ${protocol}`,
      comment(`${name} ${to.note}`),
      port(protocol, servicePort.port),
      to.target,
    ),
    place: "first",
  };
}
