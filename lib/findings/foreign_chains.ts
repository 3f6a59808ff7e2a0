/**
 * Checks the base chains of other programs: firewalls that drop what Services send, and nat chains that
 * decide before ours.
 *
 * @module
 */
import { FAMILIES, type Family } from "../model/values/address.ts";
import { serviceOf } from "../model/cluster/names.ts";
import type { DesiredServicePort } from "../model/kernel/desired.ts";
import { isExternal } from "../policy/frontend.ts";
import { eachPort, type ForeignChain, type NodeFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";
import { fateOf, type Packet } from "./packet_filter.ts";

/** Our nat chains of prerouting and output have this priority in nftables mode, and the next one in iptables mode. */
const NAT_PRIORITY = -101;

/** Finds nat chains that decide before ours, or may do so. */
export function checkNatOrder({ ruleset }: NodeFacts): Finding[] {
  return baseChains(ruleset?.chains, ["nat"], ["prerouting", "output"]).filter(({ hook }) =>
    hook.priority <= NAT_PRIORITY
  ).map(({ table, name, hook: { hook, priority } }) =>
    finding("nat-chain-before-ours", {
      what:
        `chain ${name} of table ${table} does NAT at ${hook} with priority ${priority}, before Services`,
      where: `chain ${table} ${name}`,
    })
  );
}

/** Finds firewalls that drop new connections from outside to endpoints, or to health-check node ports. */
export function* checkFirewalls(facts: NodeFacts): Generator<undefined, Finding[]> {
  const { objects, ruleset } = facts;
  const chains = ruleset?.chains ?? [];
  const bases = baseChains(chains, ["filter"], ["forward", "input"]);
  if (!objects || bases.length === 0) return [];
  const findings: Finding[] = [];
  for (const sample of yield* samples(facts)) {
    for (const base of bases) {
      if (base.hook.hook !== sample.hook || !seesFamily(base.table, sample.packet.family)) continue;
      if (fateOf(sample.packet, { base, chains }) === "drop") findings.push(dropped(base, sample));
    }
  }
  // A chain of both families has one finding.
  return [...new Map(findings.map((each) => [each.where, each])).values()];
}

/** A connection that a Service needs, and where it passes. */
interface Sample {
  readonly hook: "forward" | "input";
  readonly service: string;
  readonly packet: Packet;
}

/** Returns, for each family, a connection to an endpoint from outside, and one to a health-check node port. */
function* samples(
  { objects, interfaceAddresses, configuration }: NodeFacts,
): Generator<undefined, Sample[]> {
  if (!objects) return [];
  const own = new Set(interfaceAddresses);
  const found = new Map<string, Sample>();
  const add = (hook: Sample["hook"], port: DesiredServicePort, to: Partial<Packet>) => {
    const { family, protocol, name } = port;
    const packet: Packet = {
      ...{ family, protocol, daddr: "", dport: 0, isDnat: hook === "forward" },
      notFrom: configuration.clusterCIDRs,
      ...to,
    };
    found.set(`${hook} ${family}`, { hook, service: serviceOf(name), packet });
  };
  const nodeAddress = (family: Family) =>
    objects.node?.addresses.find((address) => address.includes(":") === (family === 6));
  yield* eachPort(objects.desired, (port) => {
    const { family, healthCheckNodePort } = port;
    const endpoint = isExternal(port) && !found.has(`forward ${family}`)
      ? port.clusterEndpoints.find(({ address }) => !own.has(address))
      : undefined;
    if (endpoint) add("forward", port, { daddr: endpoint.address, dport: endpoint.port });
    const daddr = nodeAddress(family);
    if (healthCheckNodePort && daddr !== undefined && !found.has(`input ${family}`)) {
      add("input", port, { protocol: "tcp", daddr, dport: healthCheckNodePort });
    }
    return found.size === 2 * FAMILIES.length;
  });
  return [...found.values()];
}

/** Returns true if the chains of a table, such as `inet hostfw`, see packets of an IP family. */
export function seesFamily(table: string, family: Family): boolean {
  return new RegExp(`^(?:inet|ip${family === 6 ? "6" : ""}(?:tables-legacy)?) `).test(table);
}

function dropped({ table, name }: BaseChain, { hook, service, packet }: Sample): Finding {
  const chain = `chain ${name} of table ${table}`;
  const where = `chain ${table} ${name}`;
  // Only iptables names its chains in capitals.
  const isIptables = /^ip6?(?:tables-legacy)? filter$/.test(table) && name === name.toUpperCase();
  const variant = table.includes("-legacy") ? "-legacy" : "";
  const iptables = `${table.startsWith("ip6") ? "ip6tables" : "iptables"}${variant} -I ${name}`;
  const insert = `nft insert rule ${table} ${name}`;
  if (hook === "input") {
    const { dport } = packet;
    return finding("firewall-drops-health-checks", {
      what: `${chain} drops health checks at node port ${dport} (${service})`,
      where,
      remedy: isIptables
        ? `Accept them: ${iptables} -p tcp --dport ${dport} -j ACCEPT`
        : `Accept them: ${insert} tcp dport ${dport} accept`,
      services: [service],
    });
  }
  return finding("firewall-drops-services", {
    what: `${chain} drops connections from outside that Services send to endpoints, such as ` +
      `${service} to ${packet.daddr} ${packet.protocol} port ${packet.dport}`,
    where,
    remedy: isIptables
      ? `Accept them: ${iptables} -m conntrack --ctstate DNAT -j ACCEPT`
      : `Accept them: ${insert} ct status dnat accept`,
  });
}

type BaseChain = ForeignChain & { readonly hook: NonNullable<ForeignChain["hook"]> };

function baseChains(
  chains: readonly ForeignChain[] = [],
  types: readonly string[],
  hooks: readonly string[],
): BaseChain[] {
  return chains.flatMap(({ hook, ...rest }) =>
    hook && types.includes(hook.type) && hooks.includes(hook.hook) ? [{ ...rest, hook }] : []
  );
}
