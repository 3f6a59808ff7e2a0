/** Builds the rules of one service port as kube-proxy does, but with endpoint chains for session affinity alone. */
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
  const { names, policies, usesExternalChain, usesFirewall } = context;
  const chains = new Map<string, readonly string[]>();
  for (const policy of policies) {
    const picks = endpointRules(servicePort, endpointsFor(servicePort, policy));
    chains.set(names[policy], [...masqueradeRules(context, policy), ...picks.rules]);
    for (const [name, rules] of picks.chains) chains.set(name, rules);
  }
  if (usesExternalChain) chains.set(names.external, externalRules(context));
  if (usesFirewall) chains.set(names.firewall, firewallRules(context));
  return { chains, shared: sharedRules(context) };
}

interface ServiceContext {
  readonly servicePort: DesiredServicePort;
  readonly node: DesiredNode;
  readonly names: ServiceChainNames;
  readonly policies: readonly TrafficPolicy[];
  readonly usesExternalChain: boolean;
  readonly usesFirewall: boolean;
}

function contextOf(servicePort: DesiredServicePort, node: DesiredNode): ServiceContext {
  const { clusterIPs, loadBalancerIPs, sourceRanges, hasEndpoints } = servicePort;
  const { internalTrafficPolicy, externalTrafficPolicy } = servicePort;
  const usesExternalChain = isExternal(servicePort) && hasEndpoints;
  const isUsed = (policy: TrafficPolicy) =>
    endpointsFor(servicePort, policy).length > 0 &&
    (clusterIPs.length > 0 && internalTrafficPolicy === policy ||
      // Pods and the node reach external addresses under the Cluster policy.
      usesExternalChain && (policy === "Cluster" || externalTrafficPolicy === policy));
  return {
    servicePort,
    node,
    names: serviceChainNames(servicePort.name, servicePort.protocol),
    policies: (["Cluster", "Local"] as const).filter(isUsed),
    usesExternalChain,
    usesFirewall: hasEndpoints && loadBalancerIPs.length > 0 && sourceRanges.length > 0,
  };
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

function externalRules({ servicePort, names, policies, node }: ServiceContext): string[] {
  const { name, family, externalTrafficPolicy } = servicePort;
  const to = `${name} external destinations`;
  const rules: string[] = [];
  if (externalTrafficPolicy === "Cluster") {
    rules.push(rule(comment(`masquerade traffic for ${to}`), "-j KUBE-MARK-MASQ"));
  } else if (policies.includes("Cluster")) {
    const detector = node.families[family].localDetector;
    if (detector) {
      const { source, input } = fromLocalPod(detector);
      rules.push(rule(source, input, comment(`pod traffic for ${to}`), `-j ${names.Cluster}`));
    }
    const fromNode = "-m addrtype --src-type LOCAL";
    rules.push(
      rule(comment(`masquerade LOCAL traffic for ${to}`), fromNode, "-j KUBE-MARK-MASQ"),
      rule(comment(`route LOCAL traffic for ${to}`), fromNode, `-j ${names.Cluster}`),
    );
  }
  if (policies.includes(externalTrafficPolicy)) rules.push(`-j ${names[externalTrafficPolicy]}`);
  return rules;
}

function firewallRules({ servicePort: { name, sourceRanges }, names }: ServiceContext): string[] {
  return [
    ...sourceRanges.map((range) =>
      rule(`-s ${range}`, comment(`${name} loadbalancer IP`), `-j ${names.external}`)
    ),
    comment(`other traffic to ${name} will be dropped by KUBE-PROXY-FIREWALL`),
  ];
}

type Place = Omit<SharedRule, "rule">;

const SERVICES: Place = { table: "nat", chain: "KUBE-SERVICES", place: "first" };
const NODE_PORTS: Place = { table: "nat", chain: "KUBE-NODEPORTS", place: "last" };
const HAIRPINS: Place = { table: "nat", chain: HAIRPIN_CHAIN, place: "first" };
/** A firewall may drop forwarded packets, and hairpin connections are not marked yet. */
const FORWARDED_HAIRPINS: Place = { table: "filter", chain: "KUBE-FORWARD", place: "last" };
const REFUSED: Place = { table: "filter", chain: "KUBE-SERVICES", place: "first" };
const REFUSED_OUTSIDE: Place = { ...REFUSED, chain: "KUBE-EXTERNAL-SERVICES" };
const FIREWALL: Place = { ...REFUSED, chain: "KUBE-PROXY-FIREWALL" };
const HEALTH_CHECKS: Place = { table: "filter", chain: "KUBE-NODEPORTS", place: "last" };

function sharedRules(context: ServiceContext): SharedRule[] {
  const { servicePort, names, policies, usesExternalChain, usesFirewall } = context;
  const { family, protocol, name, clusterIPs, externalIPs, loadBalancerIPs } = servicePort;
  const { internalTrafficPolicy, externalTrafficPolicy } = servicePort;
  const toAddresses = (
    addresses: readonly string[],
    { note, target, ...place }: Place & Treatment,
  ) => {
    const end = [`-p ${protocol}`, comment(`${name} ${note}`), port(protocol, servicePort.port)];
    return addresses.map((address): SharedRule => ({
      ...place,
      rule: rule(`-d ${host(family, address)}`, ...end, target),
    }));
  };
  const external = { ...SERVICES, note: "external IP", target: `-j ${names.external}` };
  const loadBalancer = {
    ...SERVICES,
    note: "loadbalancer IP",
    target: `-j ${usesFirewall ? names.firewall : names.external}`,
  };
  const outside = [...externalIPs, ...loadBalancerIPs];
  const refusal = refusalOf(servicePort);
  return [
    ...toAddresses(
      clusterIPs,
      policies.includes(internalTrafficPolicy)
        ? { ...SERVICES, note: "cluster IP", target: `-j ${names[internalTrafficPolicy]}` }
        : { ...REFUSED, ...refusal },
    ),
    ...toAddresses(usesExternalChain ? externalIPs : [], external),
    ...toAddresses(usesExternalChain ? loadBalancerIPs : [], loadBalancer),
    ...toAddresses(policies.includes(externalTrafficPolicy) ? [] : outside, {
      ...REFUSED_OUTSIDE,
      ...refusal,
    }),
    // Packets that the firewall chain did not accept still have the load balancer's address.
    ...toAddresses(usesFirewall ? loadBalancerIPs : [], {
      ...FIREWALL,
      note: `traffic not accepted by ${names.firewall}`,
      target: "-j DROP",
    }),
    ...portRules(context),
    ...hairpinRules(context),
  ];
}

/** Returns the rules for the node port and the health-check node port, which does not have endpoints. */
function portRules(
  { servicePort, names, policies, usesExternalChain }: ServiceContext,
): SharedRule[] {
  const { protocol, name, nodePort, healthCheckNodePort = 0 } = servicePort;
  const { note, target } = refusalOf(servicePort);
  const rules: SharedRule[] = [];
  const add = (place: Place, ...words: string[]) => rules.push({ ...place, rule: rule(...words) });
  if (nodePort !== 0 && !policies.includes(servicePort.externalTrafficPolicy)) {
    const match = `-m addrtype --dst-type LOCAL ${port(protocol, nodePort)}`;
    add(REFUSED_OUTSIDE, `-p ${protocol}`, comment(`${name} ${note}`), match, target);
  }
  if (nodePort !== 0 && usesExternalChain) {
    const to = `${port(protocol, nodePort)} -j ${names.external}`;
    add(NODE_PORTS, `-p ${protocol}`, comment(name), to);
  }
  if (healthCheckNodePort !== 0) {
    const accept = `${port("tcp", healthCheckNodePort)} -j ACCEPT`;
    add(HEALTH_CHECKS, "-p tcp", comment(`${name} health check node port`), accept);
  }
  return rules;
}

function hairpinRules({ servicePort, policies }: ServiceContext): SharedRule[] {
  const own = policies.flatMap((policy) => endpointsFor(servicePort, policy))
    .filter(({ hairpin }) => hairpin).map(({ address }) => host(servicePort.family, address));
  return [...new Set(own)].flatMap((address) => {
    const toItself = `-s ${address} -d ${address}`;
    return [
      { ...HAIRPINS, rule: `${toItself} -j KUBE-MARK-MASQ` },
      { ...FORWARDED_HAIRPINS, rule: `${toItself} -m conntrack --ctstate DNAT -j ACCEPT` },
    ];
  });
}

/** The comment and the end of a rule. */
interface Treatment {
  readonly note: string;
  readonly target: string;
}

function refusalOf({ hasEndpoints, family }: DesiredServicePort): Treatment {
  if (hasEndpoints) return { note: "has no local endpoints", target: "-j DROP" };
  return { note: "has no endpoints", target: reject(family) };
}

interface EndpointRules {
  readonly rules: readonly string[];
  /** The chains of endpoints with session affinity. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
}

/**
 * Returns the rules that pick an endpoint. With session affinity, the rules of known clients come first. A `recent`
 * list exists as long as a rule names it, so a client keeps its endpoint across syncs.
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

/** Returns the match that takes an equal share of the remaining connections. */
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
