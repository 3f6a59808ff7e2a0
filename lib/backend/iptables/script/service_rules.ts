/** Builds the rules of one service port, as kube-proxy does. But only session affinity has chains of endpoints. */
import {
  type DesiredNode,
  type DesiredServicePort,
  type Destination,
  endpointsFor,
  isExternal,
} from "../../../model/kernel/desired.ts";
import type { TrafficPolicy } from "../../../model/cluster/objects.ts";
import {
  chance,
  comment,
  fromLocalPod,
  host,
  port,
  reject,
  rule,
  type ServiceRules,
  type SharedRule,
} from "./rule.ts";
import {
  endpointChainName,
  HAIRPIN_CHAIN,
  type ServiceChainNames,
  serviceChainNames,
} from "./names.ts";
import type { Family } from "../../../model/values/address.ts";
import { hostPort } from "../../../model/cluster/names.ts";

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

/** Masquerades connections to the cluster IP that are not from pods, since they may be routed through this node. */
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

function firewallRules({ servicePort, names }: ServiceContext): string[] {
  const { name, sourceRanges } = servicePort;
  return [
    ...sourceRanges.map((range) =>
      rule(`-s ${range}`, comment(`${name} loadbalancer IP`), `-j ${names.external}`)
    ),
    comment(`other traffic to ${name} will be dropped by KUBE-PROXY-FIREWALL`),
  ];
}

interface ServiceContext {
  readonly servicePort: DesiredServicePort;
  readonly node: DesiredNode;
  readonly names: ServiceChainNames;
  readonly usesExternalChain: boolean;
  readonly usesFirewall: boolean;
}

function contextOf(servicePort: DesiredServicePort, node: DesiredNode): ServiceContext {
  const { loadBalancerIPs, sourceRanges, hasEndpoints } = servicePort;
  return {
    servicePort,
    node,
    names: serviceChainNames(servicePort.name, servicePort.protocol),
    usesExternalChain: isExternal(servicePort) && hasEndpoints,
    usesFirewall: hasEndpoints && loadBalancerIPs.length > 0 && sourceRanges.length > 0,
  };
}

function policyChain({ names }: ServiceContext, policy: TrafficPolicy): string {
  return policy === "Cluster" ? names.cluster : names.local;
}

/** Returns true if a policy's chain exists. Pods and the node reach external addresses under the Cluster policy. */
function isUsed(context: ServiceContext, policy: TrafficPolicy): boolean {
  const { servicePort, usesExternalChain } = context;
  if (endpointsFor(servicePort, policy).length === 0) return false;
  const internal = servicePort.clusterIPs.length > 0 &&
    servicePort.internalTrafficPolicy === policy;
  const external = usesExternalChain &&
    (policy === "Cluster" || servicePort.externalTrafficPolicy === policy);
  return internal || external;
}

function sharedRules(context: ServiceContext): SharedRule[] {
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
  const { clusterIPs } = servicePort;
  return toAddresses(servicePort, clusterIPs, { table, chain: "KUBE-SERVICES", note, target });
}

function externalAddressRules(context: ServiceContext): SharedRule[] {
  const { servicePort, names, usesExternalChain, usesFirewall } = context;
  if (!usesExternalChain) return [];
  const capture = (addresses: readonly string[], note: string, chain: string) =>
    toAddresses(servicePort, addresses, {
      table: "nat",
      chain: "KUBE-SERVICES",
      note,
      target: `-j ${chain}`,
    });
  const ofLoadBalancers = usesFirewall ? names.firewall : names.external;
  return [
    ...capture(servicePort.externalIPs, "external IP", names.external),
    ...capture(servicePort.loadBalancerIPs, "loadbalancer IP", ofLoadBalancers),
  ];
}

/** Refuses external traffic if its policy has no endpoint here. */
function refusalRules(context: ServiceContext): SharedRule[] {
  const { servicePort } = context;
  const { externalIPs, loadBalancerIPs, externalTrafficPolicy, nodePort, protocol } = servicePort;
  if (isUsed(context, externalTrafficPolicy)) return [];
  const place = { table: "filter", chain: "KUBE-EXTERNAL-SERVICES" } as const;
  const { note, target } = refusal(servicePort);
  const match = `-m addrtype --dst-type LOCAL ${port(protocol, nodePort)}`;
  const words = [`-p ${protocol}`, comment(`${servicePort.name} ${note}`), match, target];
  return [
    ...toAddresses(servicePort, [...externalIPs, ...loadBalancerIPs], { ...place, note, target }),
    ...nodePort === 0 ? [] : [{ ...place, rule: rule(...words), place: "first" as const }],
  ];
}

/** Drops packets that the firewall chain did not accept: they still have the load balancer's address. */
function firewallDrops({ servicePort, names, usesFirewall }: ServiceContext): SharedRule[] {
  return toAddresses(servicePort, usesFirewall ? servicePort.loadBalancerIPs : [], {
    table: "filter",
    chain: "KUBE-PROXY-FIREWALL",
    note: `traffic not accepted by ${names.firewall}`,
    target: "-j DROP",
  });
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

function hairpinRules(context: ServiceContext): SharedRule[] {
  const { servicePort } = context;
  const used = (["Cluster", "Local"] as const).flatMap((policy) =>
    isUsed(context, policy) ? endpointsFor(servicePort, policy) : []
  );
  const own = used.filter(({ hairpin }) => hairpin)
    .map(({ address }) => host(servicePort.family, address));
  return [...new Set(own)].map((address) => ({
    table: "nat",
    chain: HAIRPIN_CHAIN,
    rule: `-s ${address} -d ${address} -j KUBE-MARK-MASQ`,
    place: "first",
  }));
}

/** The comment and the end of a rule. */
interface Treatment {
  readonly note: string;
  readonly target: string;
}

function refusal({ hasEndpoints, family }: DesiredServicePort): Treatment {
  if (hasEndpoints) return { note: "has no local endpoints", target: "-j DROP" };
  return { note: "has no endpoints", target: reject(family) };
}

/** Returns a rule for the port at each address. */
function toAddresses(
  { family, protocol, name, port: number }: DesiredServicePort,
  addresses: readonly string[],
  { table, chain, note, target }: Pick<SharedRule, "table" | "chain"> & Treatment,
): SharedRule[] {
  const rest = [`-p ${protocol}`, comment(`${name} ${note}`), port(protocol, number), target];
  return addresses.map((address) => ({
    table,
    chain,
    rule: rule(`-d ${host(family, address)}`, ...rest),
    place: "first",
  }));
}

interface EndpointRules {
  readonly rules: readonly string[];
  /** The chains of endpoints with session affinity. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
}

/**
 * Returns the rules that pick an endpoint: with session affinity, first those of the clients that have one. A `recent`
 * list lives as long as a rule names it, so a client keeps its endpoint across syncs.
 */
export function endpointRules(
  servicePort: DesiredServicePort,
  endpoints: readonly Destination[],
): EndpointRules {
  const { protocol, affinitySeconds, family } = servicePort;
  const turn = turnOf(servicePort);
  const toEndpoint = ({ address, port }: Destination) =>
    `-j DNAT --to-destination ${hostPort(address, port)}`;
  const pick = (match: string, target: (endpoint: Destination) => string) =>
    endpoints.map((endpoint, i) => rule(match, turn(endpoints.length - i), target(endpoint)));
  if (affinitySeconds === 0) {
    return { rules: pick(`-p ${protocol}`, toEndpoint), chains: new Map() };
  }

  const chains = new Map<string, readonly string[]>();
  const known: string[] = [];
  for (const endpoint of endpoints) {
    const name = endpointChainName(servicePort, endpoint);
    const list = `--name ${name} --mask ${WHOLE_ADDRESS[family]} --rsource`;
    known.push(`-m recent --rcheck --seconds ${affinitySeconds} --reap ${list} -j ${name}`);
    chains.set(name, [rule(`-p ${protocol} -m recent --set ${list}`, toEndpoint(endpoint))]);
  }
  const toChain = (endpoint: Destination) => `-j ${endpointChainName(servicePort, endpoint)}`;
  return { rules: [...known, ...pick("", toChain)], chains };
}

/** Returns the match that takes one of the remaining connections. */
function turnOf({ scheduler }: DesiredServicePort): (left: number) => string | undefined {
  switch (scheduler?.type) {
    case undefined:
    case "consistent-hash":
      return chance;
    case "round-robin":
      return (left) => left > 1 ? `-m statistic --mode nth --every ${left} --packet 0` : undefined;
  }
}

const WHOLE_ADDRESS: Readonly<Record<Family, string>> = {
  4: "255.255.255.255",
  6: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
};
