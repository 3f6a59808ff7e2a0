/**
 * Builds the rules of one service port, from its addresses to its endpoints.
 *
 * Behaviour and chain names are those of kube-proxy's iptables mode. But endpoints without session
 * affinity have no chains: the Service's chain has the DNAT rules.
 *
 * @module
 */
import {
  type DesiredNode,
  type DesiredServicePort,
  endpointsFor,
} from "../../../model/kernel/desired.ts";
import type { TrafficPolicy } from "../../../model/cluster/objects.ts";
import { endpointRules } from "./endpoint_rules.ts";
import { comment, fromLocalPod, host, port, rule } from "./rule.ts";
import type { ServiceRules } from "./ruleset.ts";
import { contextOf, isUsed, policyChain, type ServiceContext } from "./service_context.ts";
import { sharedRules } from "./shared_rules.ts";

/** Returns all rules of one service port. */
export function serviceRules(servicePort: DesiredServicePort, node: DesiredNode): ServiceRules {
  const context = contextOf(servicePort, node);
  const chains = new Map<string, readonly string[]>();
  for (const policy of ["Cluster", "Local"] as const) {
    if (isUsed(context, policy)) {
      const { rules, chains: ofEndpoints } = endpointRules(
        servicePort,
        endpointsFor(context.servicePort, policy),
      );
      chains.set(policyChain(context, policy), [...masqueradeRules(context, policy), ...rules]);
      for (const [name, rulesOfEndpoint] of ofEndpoints) chains.set(name, rulesOfEndpoint);
    }
  }
  if (context.usesExternalChain) chains.set(context.names.external, externalRules(context));
  if (context.usesFirewall) chains.set(context.names.firewall, firewallRules(context));
  return { chains, shared: sharedRules(context) };
}

/**
 * Masquerades connections to the cluster IP that are not from pods, since they may be routed
 * through this node.
 */
function masqueradeRules({ servicePort, node }: ServiceContext, policy: TrafficPolicy): string[] {
  const { family, clusterIPs, protocol, name, internalTrafficPolicy } = servicePort;
  const detector = node.families[family].localDetector;
  if (internalTrafficPolicy !== policy || (!node.masqueradeAll && !detector)) return [];
  const origin = node.masqueradeAll || !detector
    ? { source: "", input: "" }
    : fromLocalPod(detector, "!");
  return clusterIPs.map((address) =>
    rule(
      origin.source,
      `-d ${host(family, address)}`,
      origin.input,
      `-p ${protocol}`,
      comment(`${name} cluster IP`),
      port(protocol, servicePort.port),
      "-j KUBE-MARK-MASQ",
    )
  );
}

/**
 * Returns the chain of external addresses and node ports. It masquerades, or sends pods and the
 * node to the Cluster policy.
 */
function externalRules(context: ServiceContext): string[] {
  const { servicePort: { name, family, externalTrafficPolicy }, names, node } = context;
  const to = `${name} external destinations`;
  const rules: string[] = [];
  if (externalTrafficPolicy === "Cluster") {
    rules.push(rule(comment(`masquerade traffic for ${to}`), "-j KUBE-MARK-MASQ"));
  } else if (isUsed(context, "Cluster")) {
    const detector = node.families[family].localDetector;
    if (detector) {
      const { source, input } = fromLocalPod(detector);
      rules.push(rule(source, input, comment(`pod traffic for ${to}`), `-j ${names.cluster}`));
    }
    const fromNode = "-m addrtype --src-type LOCAL";
    rules.push(
      rule(comment(`masquerade LOCAL traffic for ${to}`), fromNode, "-j KUBE-MARK-MASQ"),
      rule(comment(`route LOCAL traffic for ${to}`), fromNode, `-j ${names.cluster}`),
    );
  }
  if (isUsed(context, externalTrafficPolicy)) {
    rules.push(`-j ${policyChain(context, externalTrafficPolicy)}`);
  }
  return rules;
}

/** Returns the chain of load-balancer IPs with source ranges. `KUBE-PROXY-FIREWALL` drops the rest. */
function firewallRules({ servicePort, names }: ServiceContext): string[] {
  const { name, sourceRanges } = servicePort;
  return [
    ...sourceRanges.map((range) =>
      rule(`-s ${range}`, comment(`${name} loadbalancer IP`), `-j ${names.external}`)
    ),
    comment(`other traffic to ${name} will be dropped by KUBE-PROXY-FIREWALL`),
  ];
}
