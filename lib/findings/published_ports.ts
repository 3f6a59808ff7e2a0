/** Checks ports that other programs publish for containers against node ports. */
import { serviceOf } from "../model/cluster/names.ts";
import type { Finding } from "../model/status.ts";
import { takesNodePorts } from "../policy/node.ts";
import { finding } from "./catalog.ts";
import { eachPort, type ForeignChain, type NodeFacts } from "./facts.ts";
import { seesFamily } from "./foreign_chains.ts";

/** A rule by which another program sends packets to some ports elsewhere, such as to a container. */
interface Publication {
  readonly chain: ForeignChain;
  readonly protocol: string | undefined;
  readonly ports: readonly (readonly [first: number, last: number])[];
  /** Absent: any. */
  readonly address: string | undefined;
  /** `""`: a chain or map knows it. */
  readonly to: string;
}

/** Programs that publish ports of containers, by their tables and chains. */
const PUBLISHERS: readonly (readonly [RegExp, string])[] = [
  [/ DOCKER/, "Docker"],
  [/netavark| nv_/i, "Podman"],
  [/ CNI-|cni_hostport/, "the plugin portmap"],
];

/** Finds ports that other programs send to containers, and that are node ports. */
export function* checkPublishedPorts(
  { objects, ruleset, interfaceAddresses }: NodeFacts,
): Generator<Finding | undefined> {
  if (!objects || !ruleset) return;
  const published = ruleset.chains.flatMap(publicationsOf);
  if (published.length === 0) return;
  const { node } = objects.desired;
  const found = new Map<string, Finding>();
  yield* eachPort(objects.desired, ({ name, family, protocol, nodePort }) => {
    for (const { chain, ports, address, to, ...rule } of nodePort === 0 ? [] : published) {
      const isOther = !ports.some(([first, last]) => first <= nodePort && nodePort <= last) ||
        !seesFamily(chain.table, family) || (rule.protocol ?? protocol) !== protocol;
      if (isOther) continue;
      const isOwn = address !== undefined && interfaceAddresses.includes(address);
      if (address !== undefined && !takesNodePorts(address, { node, isOwn })) continue;
      const service = serviceOf(name);
      const [, program] = PUBLISHERS.find(([known]) => known.test(chainName(chain))) ?? [];
      const what = `chain ${chain.name} of table ${chain.table}${program ? ` (${program})` : ""} ` +
        `sends ${protocol} port ${nodePort}${to && ` to ${to}`}, and it is the node port of ` +
        `${service}: only one of them gets the connections (in nftables mode the Service)`;
      const [namespace, serviceName] = service.split("/");
      const remedy = "Publish the container at another port, or change the Service's nodePort: " +
        `kubectl edit service -n ${namespace} ${serviceName}`;
      const where = `chain ${chainName(chain)} port ${nodePort}/${protocol}`;
      const each = { what, where, remedy, services: [service] };
      found.set(where, finding("published-port-is-node-port", each));
    }
    return false;
  });
  yield* found.values();
}

function chainName({ table, name }: ForeignChain): string {
  return `${table} ${name}`;
}

const DNAT = /\b(?:dnat (?:ip6? )?to (\S+)|xt target "DNAT")/;
const DPORT = /\b(tcp|udp|sctp|th) dport (?:map )?(\{[^}]*\}|\d\S*)/;

/** Parses the DNAT rules of a chain that is not a proxy's. */
function publicationsOf(chain: ForeignChain): Publication[] {
  if (chain.name.startsWith("KUBE-")) return [];
  return chain.rules.flatMap((rule) => {
    const [isDnat, target = ""] = DNAT.exec(rule) ?? [];
    const [, protocol, list = ""] = DPORT.exec(rule) ?? [];
    if (isDnat === undefined || list === "") return [];
    const ports = [...list.matchAll(/(?:^|[{,]) ?(\d+)(?:-(\d+))?/g)]
      .map(([, first, last = first]) => [Number(first), Number(last)] as const);
    return [{
      chain,
      protocol: protocol === "th" ? undefined : protocol,
      ports,
      address: / daddr ([\da-f.:]+)(?: |$)/.exec(` ${rule}`)?.[1],
      to: /^\[?[\da-f]/.test(target) ? target : "",
    }];
  });
}
