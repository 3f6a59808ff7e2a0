/** Makes and sorts findings of `explain`, also from findings on the node. */
import type { Sender } from "../config/command.ts";
import { seesFamily } from "../findings/foreign_chains.ts";
import { BRIDGE_FILTER, FORWARDING } from "../findings/system.ts";
import { bySeverity, type Finding } from "../model/status.ts";
import { cidrContains, type Family, familyOf } from "../model/values/address.ts";
import type { Known, World } from "./packet.ts";
import type { ExplainFinding, ForeignDrop } from "./report.ts";

/** Sorts findings, errors first, and drops repeated ones. */
export function sortFindings(findings: readonly ExplainFinding[]): ExplainFinding[] {
  const unique = new Map(findings.map((each) => [`${each.code} ${each.message}`, each]));
  return [...unique.values()].sort(bySeverity);
}

/** The kind of finding on a firewall that drops packets for certain. */
const DROPS = "firewall-drops-services";

interface Packets {
  readonly service: string;
  readonly family: Family;
  readonly endpoints: readonly { readonly address: string }[];
  readonly senders: readonly Sender[];
}

type OfNode = Pick<Known, "nodeFindings" | "ownAddresses">;

/** Returns the findings on firewalls that drop packets of these senders to endpoints, or may do so. */
export function dropsOf(
  { service, family, endpoints, senders }: Packets,
  { nodeFindings, ownAddresses }: OfNode,
): Finding[] {
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

/** Returns the first of these findings, a certain drop if there is one, with the dropped senders. */
export function dropOf(
  packets: Packets,
  node: OfNode,
): { readonly by: ForeignDrop; readonly finding: Finding } | undefined {
  const find = (senders: readonly Sender[]) => {
    const found = dropsOf({ ...packets, senders }, node);
    return found.find(isCertain) ?? found[0];
  };
  const finding = find(packets.senders);
  if (!finding) return undefined;
  const senders = packets.senders.filter((sender) => find([sender])?.id === finding.id);
  const mayPass = isCertain(finding) ? {} : { mayPass: true } as const;
  return { by: { ...chainOf(finding.where), senders, ...mayPass }, finding };
}

export function isCertain({ id }: Finding): boolean {
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
  { nodeFindings, ownAddresses, sender }: OfNode & { readonly sender?: Sender },
): Finding[] {
  const pods = endpoints.filter(({ address }) => !ownAddresses.includes(address));
  // The node's own packets are not forwarded, and pass connection tracking.
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

/** Converts the node findings on a Service. @param drops findings on firewalls that drop its packets */
export function aboutService(
  key: string,
  { found, drops }: {
    readonly found: readonly Finding[];
    readonly drops: readonly Finding[];
  },
): ExplainFinding[] {
  return [...found.filter((each) => !each.drops && each.services.includes(key)), ...drops]
    .map(fromNode);
}

/** Converts a finding on the node. If pods cannot reach a Service, it does not work. */
export function fromNode({ severity, id, what, remedy, drops }: Finding): ExplainFinding {
  const isBroken = id === DROPS && drops?.some((each) => each.startsWith("pod "));
  return {
    severity: isBroken ? "error" : severity === "info" ? "note" : severity,
    code: id,
    message: what,
    hint: remedy,
  };
}

/** Finds endpoints in the range of cluster IPs. A packet is translated once, so the Service of that address does not get it. */
export function clusterIPEndpoints(
  endpoints: readonly { readonly address: string }[],
  { desired: { node }, ownAddresses }: Pick<World, "desired" | "ownAddresses">,
): ExplainFinding[] {
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

/** Makes a finding on a fault that stops traffic. */
export function error(code: string, message: string, hint = ""): ExplainFinding {
  return { severity: "error", code, message, hint };
}

/** Makes a finding on a fault that may stop or change some traffic. */
export function warning(code: string, message: string, hint = ""): ExplainFinding {
  return { severity: "warning", code, message, hint };
}

export function note(code: string, message: string, hint = ""): ExplainFinding {
  return { severity: "note", code, message, hint };
}
