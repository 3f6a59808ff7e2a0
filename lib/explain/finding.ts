/** Makes findings, and puts them in order. */
import type { Sender } from "../config/command.ts";
import { seesFamily } from "../findings/foreign_chains.ts";
import { BRIDGE_FILTER, FORWARDING } from "../findings/system.ts";
import { bySeverity, type Finding as NodeFinding } from "../model/status.ts";
import { cidrContains, type Family, familyOf } from "../model/values/address.ts";
import type { World } from "./packet.ts";
import type { Finding, ForeignDrop } from "./report.ts";

/** Puts errors first, and drops what several ports say alike. */
export function sortFindings(findings: readonly Finding[]): Finding[] {
  const unique = new Map(findings.map((each) => [`${each.code} ${each.message}`, each]));
  return [...unique.values()].sort(bySeverity);
}

/** The kind about packets that are dropped for certain. */
const DROPS = "firewall-drops-services";

interface Packets {
  readonly service: string;
  readonly family: Family;
  readonly endpoints: readonly { readonly address: string }[];
  readonly senders: readonly Sender[];
}

interface NodeFacts {
  readonly nodeFindings: readonly NodeFinding[];
  readonly ownAddresses: readonly string[];
}

/** Returns the findings on firewalls that drop packets of these senders to endpoints, or may do so. */
export function dropsOf(
  { service, family, endpoints, senders }: Packets,
  { nodeFindings, ownAddresses }: NodeFacts,
): NodeFinding[] {
  // Packets to an address of this node are not forwarded.
  const paths = new Set(
    endpoints.map(({ address }) => ownAddresses.includes(address) ? "input" : "forward"),
  );
  const kinds = senders.flatMap((sender) => [...paths].map((path) => `${sender} ${path}`));
  return nodeFindings.filter(({ drops, services, where }) =>
    drops?.some((each) => kinds.includes(each)) && seesFamily(chainOf(where).table, family) &&
    (services.length === 0 || services.includes(service))
  );
}

/** Returns the first of these findings, one on a certain drop if there is any, and the senders that are dropped. */
export function dropOf(
  packets: Packets,
  facts: NodeFacts,
): { readonly by: ForeignDrop; readonly finding: NodeFinding } | undefined {
  const find = (senders: readonly Sender[]) => {
    const found = dropsOf({ ...packets, senders }, facts);
    return found.find(isCertain) ?? found[0];
  };
  const finding = find(packets.senders);
  if (!finding) return undefined;
  const senders = packets.senders.filter((sender) => find([sender])?.id === finding.id);
  const mayPass = isCertain(finding) ? {} : { mayPass: true } as const;
  return { by: { ...chainOf(finding.where), senders, ...mayPass }, finding };
}

export function isCertain({ id }: NodeFinding): boolean {
  return id === DROPS;
}

function chainOf(where: string): Pick<ForeignDrop, "table" | "chain"> {
  const [, table = "", chain = ""] = /^chain (.+) (\S+)$/.exec(where) ?? [];
  return { table, chain };
}

/** Returns findings on kernel settings that lose packets to these endpoints. @param sender absent: any */
export function lossesTo(
  { family, endpoints }: {
    readonly family: Family;
    readonly endpoints: readonly { readonly address: string; readonly local: boolean }[];
  },
  { nodeFindings, ownAddresses, sender }: {
    readonly nodeFindings: readonly NodeFinding[];
    readonly ownAddresses: readonly string[];
    readonly sender?: Sender;
  },
): NodeFinding[] {
  const pods = endpoints.filter(({ address }) => !ownAddresses.includes(address));
  // What this node sends is not forwarded, and meets connection tracking.
  const settings = [
    ...pods.length > 0 && sender !== "node" ? [FORWARDING[family]] : [],
    ...pods.some(({ local }) => local) && (sender ?? "pod") === "pod"
      ? [BRIDGE_FILTER[family]]
      : [],
  ];
  return nodeFindings.filter(({ id, where }) => isLoss(id) && settings.includes(where));
}

/** The code of the finding on an endpoint in the range of cluster IPs. */
const CLUSTER_IP_ENDPOINT = "endpoint-is-cluster-ip";

const LOSSES: readonly string[] = ["forwarding-off", "bridge-filter-off", CLUSTER_IP_ENDPOINT];

/** Returns true for kinds of findings on packets that are lost after the DNAT. */
export function isLoss(id: string): boolean {
  return LOSSES.includes(id);
}

/** Takes over the node findings on a Service. @param drops those on firewalls that concern its packets */
export function aboutService(
  key: string,
  { found, drops }: {
    readonly found: readonly NodeFinding[];
    readonly drops: readonly NodeFinding[];
  },
): Finding[] {
  return [...found.filter((each) => !each.drops && each.services.includes(key)), ...drops]
    .map(fromNode);
}

/** Words a finding of the node as one of `explain`. A Service that pods cannot reach does not work. */
export function fromNode({ severity, id, what, remedy, drops }: NodeFinding): Finding {
  const isBroken = id === DROPS && drops?.some((each) => each.startsWith("pod "));
  return {
    severity: isBroken ? "error" : severity === "info" ? "note" : severity,
    code: id,
    message: what,
    hint: remedy,
  };
}

/** Names endpoints in the range of cluster IPs. A packet is translated once, so no other Service sends it on. */
export function clusterIPEndpoints(
  endpoints: readonly { readonly address: string }[],
  { desired: { node }, ownAddresses }: Pick<World, "desired" | "ownAddresses">,
): Finding[] {
  return endpoints.flatMap(({ address }) => {
    const { guardedCIDRs, guardedServers } = node.families[familyOf(address)];
    const range = guardedCIDRs.find((cidr) => cidrContains(cidr, address));
    if (range === undefined || [...ownAddresses, ...guardedServers].includes(address)) return [];
    return [error(
      CLUSTER_IP_ENDPOINT,
      `the endpoint ${address} is in the range of cluster IPs (${range}): packets to it reach no pod`,
      "give the EndpointSlice the addresses of pods or machines, not of a Service",
    )];
  });
}

/** Makes a finding because of which traffic is not delivered. */
export function error(code: string, message: string, hint = ""): Finding {
  return { severity: "error", code, message, hint };
}

/** Makes a finding because of which traffic may not be as expected. */
export function warning(code: string, message: string, hint = ""): Finding {
  return { severity: "warning", code, message, hint };
}

export function note(code: string, message: string, hint = ""): Finding {
  return { severity: "note", code, message, hint };
}
