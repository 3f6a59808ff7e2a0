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

/** The kind that concerns each Service with clients outside of the cluster. */
const ABOUT_OUTSIDE = "firewall-drops-services";

/** Returns the finding on the firewall that drops connections from outside to endpoints, and its chain. */
export function dropOf(
  { family, endpoints }: {
    readonly family: Family;
    readonly endpoints: readonly { readonly address: string }[];
  },
  { nodeFindings, ownAddresses }: {
    readonly nodeFindings: readonly NodeFinding[];
    readonly ownAddresses: readonly string[];
  },
): { readonly by: ForeignDrop; readonly finding: NodeFinding } | undefined {
  // Packets to an address of this node are not forwarded.
  if (endpoints.every(({ address }) => ownAddresses.includes(address))) return undefined;
  for (const finding of nodeFindings) {
    const [, table, chain] = /^chain (.+) (\S+)$/.exec(finding.where) ?? [];
    if (finding.id === ABOUT_OUTSIDE && table && chain && seesFamily(table, family)) {
      return { by: { table, chain }, finding };
    }
  }
  return undefined;
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

/** Returns true for kinds of findings on kernel settings that lose packets. */
export function isLoss(id: string): boolean {
  return id === "forwarding-off" || id === "bridge-filter-off";
}

/** Takes over the node findings on a Service. @param isOutside clients outside of the cluster are asked about */
export function aboutService(
  key: string,
  { found, isOutside }: { readonly found: readonly NodeFinding[]; readonly isOutside: boolean },
): Finding[] {
  return found
    .filter(({ id, services }) => services.includes(key) || isOutside && id === ABOUT_OUTSIDE)
    .map(fromNode);
}

/** Words a finding of the node as one of `explain`. */
export function fromNode({ severity, id, what, remedy }: NodeFinding): Finding {
  return {
    severity: severity === "info" ? "note" : severity,
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
      "endpoint-is-cluster-ip",
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
