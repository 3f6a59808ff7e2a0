/**
 * The rules of one service port: how connections to its addresses find its endpoints.
 *
 * Behaviour and names of chains are those of kube-proxy's iptables mode, but endpoints without
 * session affinity have no chain of their own: the service's chain translates the address itself.
 *
 * @module
 */
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { TrafficPolicy } from "../../../model/cluster/objects.ts";
import { endpointsFor } from "../../../model/kernel/port_endpoints.ts";
import { endpointRules } from "./endpoint_rules.ts";
import { comment, fromLocalPod, host, port, rule } from "./rule.ts";
import type { ServiceRules } from "./ruleset.ts";
import { contextOf, isUsed, policyChain, type ServiceContext } from "./service_context.ts";
import { sharedRules } from "./shared_rules.ts";

/** All rules of one service port. Pure; the same values give the same rules. */
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

/** Connections to the cluster IP that do not come from pods are masqueraded: they may be routed through this node. */
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

/** The chain of external addresses and node ports: masquerades, or lets pods and the node take the Cluster policy. */
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

/** The chain of load-balancer IPs with source ranges; what it lets fall through, `KUBE-PROXY-FIREWALL` drops. */
function firewallRules({ servicePort, names }: ServiceContext): string[] {
  const { name, sourceRanges } = servicePort;
  return [
    ...sourceRanges.map((range) =>
      rule(`-s ${range}`, comment(`${name} loadbalancer IP`), `-j ${names.external}`)
    ),
    comment(`other traffic to ${name} will be dropped by KUBE-PROXY-FIREWALL`),
  ];
}
