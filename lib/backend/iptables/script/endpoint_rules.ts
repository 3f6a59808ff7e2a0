/**
 * Builds the rules that pick an endpoint.
 *
 * @module
 */
import type { DesiredServicePort, Destination } from "../../../model/kernel/desired.ts";
import type { Family } from "../../../model/values/address.ts";
import { hostPort } from "../../../model/cluster/names.ts";
import { endpointChainName } from "./names.ts";
import { chance, rule } from "./rule.ts";

/** The end of a service port's policy chain, and the endpoint chains that it jumps to. */
export interface EndpointRules {
  readonly rules: readonly string[];
  readonly chains: ReadonlyMap<string, readonly string[]>;
}

/**
 * Returns one rule for each endpoint. The rule takes a random share of the connections that reach
 * it, or every nth one.
 *
 * With session affinity, rules with `-m recent` come first, with one list for each endpoint. A list
 * lives as long as a rule names it. So a client keeps its endpoint across syncs, until the endpoint
 * goes.
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

/** Returns the match that accepts one of the remaining connections. */
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
