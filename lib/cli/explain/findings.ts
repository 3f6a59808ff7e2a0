/**
 * Why a Service does not work: from the facts to causes and what to do about them.
 *
 * @module
 */
import { type Family, familyOf } from "../../model/address.ts";
import type { DesiredNode } from "../../model/desired.ts";
import type { Service } from "../../model/objects.ts";
import type { Conflict } from "../../desired/claims.ts";
import type { ServiceFacts } from "./inspect.ts";
import type { Finding, PortReport, UnusedSlice } from "./report.ts";

/** What the causes are found in. */
export interface FindingInputs {
  readonly service: Service;
  readonly facts: ServiceFacts | undefined;
  /** Families of the slices that are used. */
  readonly sliceFamilies: ReadonlySet<Family>;
  readonly unusedSlices: readonly UnusedSlice[];
  readonly ports: readonly PortReport[];
  readonly conflicts: readonly Conflict[];
  readonly node: DesiredNode;
  /** Whether this node's Node object was seen. */
  readonly isNodeKnown: boolean;
  readonly nodeName: string;
  readonly externalIPsAllowed: boolean;
}

/** All that is to be said of a Service that has a virtual IP, errors first, each once. */
export function findCauses(inputs: FindingInputs): Finding[] {
  const all = [
    ...conflictFindings(inputs),
    ...inputs.unusedSlices.map(({ slice, reason, endpoints }) =>
      error(
        "slice-unused",
        `EndpointSlice ${slice} (${count(endpoints, "endpoint")}) is not used: ` +
          `${reason}`,
      )
    ),
    ...inputs.ports.flatMap((port) => portFindings(port, inputs)),
    ...serviceFindings(inputs),
  ];
  return sortFindings(all);
}

const RANK = { error: 0, warning: 1, note: 2 } as const;

/** Errors first; what several ports say alike, once. */
export function sortFindings(findings: readonly Finding[]): Finding[] {
  const unique = new Map(findings.map((each) => [`${each.code} ${each.message}`, each]));
  return [...unique.values()].sort((a, b) => RANK[a.severity] - RANK[b.severity]);
}

function conflictFindings({ conflicts }: FindingInputs): Finding[] {
  return conflicts.map(({ claim, holder, loser }) =>
    error(
      "conflict",
      `${claim} belongs to Service ${holder}, which is older; ${loser} gets it when that lets go`,
      `give one of them another address or port: kubectl get service -n ` +
        `${holder.replace("/", " ")} -o yaml`,
    )
  );
}

function portFindings(port: PortReport, inputs: FindingInputs): Finding[] {
  const outcomes = port.frontends.flatMap(({ outcomes }) => outcomes);
  const usable = port.endpoints.filter(({ usedFor }) => usedFor.length > 0);
  const dead = outcomes.some(({ code }) => code === "no-endpoints");
  return [
    ...dead ? noEndpoints(port, inputs) : [],
    ...localFindings(port),
    ...sourceRangeFindings(port),
    ...usable.length > 0 && usable.every(({ code }) => code === "last-resort")
      ? [warning(
        "only-terminating",
        `${port.name} (IPv${port.family}): all endpoints in use are terminating`,
      )]
      : [],
  ];
}

/** Why no endpoint of a port can be used. */
function noEndpoints(port: PortReport, inputs: FindingInputs): Finding[] {
  const { facts, sliceFamilies } = inputs;
  const { family, endpoints } = port;
  const selector = facts?.selector ?? "";
  const where = `${port.name} (IPv${family})`;
  const pods = podsOf(inputs);
  if (endpoints.length === 0) {
    if (inputs.unusedSlices.length > 0) return [];
    if (sliceFamilies.size > 0 && !sliceFamilies.has(family)) {
      return [
        error("no-slices-of-family", `${where}: no EndpointSlice has IPv${family} addresses`, pods),
      ];
    }
    return [noPods(inputs, { selector, pods })];
  }
  const wrongPort = endpoints.filter(({ code }) => code === "wrong-port");
  if (wrongPort.length === endpoints.length) {
    const target = port.targetPort === "" ? "" : ` targetPort ${port.targetPort}:`;
    return [error(
      "wrong-target-port",
      `${where}:${target} none of ${count(endpoints.length, "endpoint")} has this port ` +
        `(${wrongPort[0]?.reason})`,
      "give targetPort the name or number of a port of the Pods' containers",
    )];
  }
  return [error(
    "none-ready",
    `${where}: none of ${count(endpoints.length, "endpoint")} is ready`,
    `see why the readiness probes fail: ${pods}`,
  )];
}

function noPods(
  { service, sliceFamilies }: FindingInputs,
  { selector, pods }: { readonly selector: string; readonly pods: string },
): Finding {
  const name = `${service.namespace}/${service.name}`;
  if (selector === "") {
    return error(
      "no-endpoints-given",
      `${name} has no selector, and nobody has made EndpointSlices with endpoints for it`,
      "make EndpointSlices with the label kubernetes.io/service-name, or set spec.selector",
    );
  }
  const seen = sliceFamilies.size > 0
    ? "its EndpointSlices are empty"
    : "there is no EndpointSlice (or kube-controller-manager does not make them)";
  return error(
    "selector-matches-nothing",
    `the selector ${selector} matches no Pod of namespace ${service.namespace}: ${seen}`,
    `compare the labels: ${pods}`,
  );
}

function podsOf({ service, facts }: FindingInputs): string {
  const labels = facts?.selector ? ` -l ${facts.selector}` : "";
  return `kubectl get pods -n ${service.namespace}${labels} --show-labels`;
}

/** Frontends where the Local policy has no endpoint here. */
function localFindings(port: PortReport): Finding[] {
  const dropped = port.frontends.filter(({ outcomes }) =>
    outcomes.some(({ code }) => code === "no-local-endpoints")
  );
  const elsewhere = [
    ...new Set(port.endpoints.filter(({ ready }) => ready).map(({ node }) => node)),
  ]
    .filter((node) => node !== null);
  return [...new Set(dropped.map(({ type }) => type === "clusterIP" ? "internal" : "external"))]
    .map((kind) =>
      error(
        "no-local-endpoints",
        `${port.name} (IPv${port.family}): ${kind} traffic policy Local, and no ready endpoint is on ` +
          `this node${elsewhere.length === 0 ? "" : ` (they are on ${elsewhere.join(", ")})`}: ` +
          (kind === "internal" ? "all traffic is dropped" : "traffic from outside is dropped"),
        kind === "internal"
          ? "run a Pod of it on this node, or set internalTrafficPolicy to Cluster"
          : "let the load balancer ask healthCheckNodePort, or set externalTrafficPolicy to Cluster",
      )
    );
}

function sourceRangeFindings(port: PortReport): Finding[] {
  const { sourceRanges, frontends } = port;
  const addresses = frontends.filter(({ type, heldBy }) =>
    type === "loadBalancerIP" && heldBy === null
  ).map(({ address }) => address);
  if (sourceRanges.length === 0 || addresses.length === 0) return [];
  return [warning(
    "source-ranges",
    `${addresses.join(", ")} takes connections from ${sourceRanges.join(", ")} only ` +
      "(spec.loadBalancerSourceRanges); all others are dropped",
    "ask about one source: signpost explain SOURCE to IP:PORT",
  )];
}

function serviceFindings(inputs: FindingInputs): Finding[] {
  const { service, facts, node, isNodeKnown, nodeName, externalIPsAllowed } = inputs;
  const families = new Set(service.clusterIPs.map(familyOf));
  const strays = [...service.externalIPs, ...service.loadBalancerIPs]
    .filter((address) => !families.has(familyOf(address)));
  const isLocal = service.externalTrafficPolicy === "Local";
  const undetected = [...families].filter((family) => !node.families[family].localDetector);
  return [
    ...strays.map((address) =>
      warning(
        "family-without-cluster-ip",
        `${address} is not served: the Service has no IPv${familyOf(address)} cluster IP`,
        "set ipFamilyPolicy and ipFamilies",
      )
    ),
    ...!externalIPsAllowed && (facts?.externalIPs.length ?? 0) > 0
      ? [
        warning("external-ips-off", "externalIPs are switched off (AllowServiceExternalIPs=false)"),
      ]
      : [],
    ...facts?.type === "LoadBalancer" && service.loadBalancerIPs.length === 0
      ? [loadBalancerFinding(facts)]
      : [],
    ...isLocal && undetected.length > 0
      ? [warning(
        "pods-not-recognised",
        "external traffic policy Local, and nothing says which senders are pods: they are treated " +
          "like clients from outside",
        "set clusterCIDR, or another detectLocalMode",
      )]
      : [],
    ...isNodeKnown ? [] : [warning(
      "node-unknown",
      `no Node ${nodeName} was seen: its zone and addresses are not known`,
      "set --hostname-override to the Node's name",
    )],
  ];
}

function loadBalancerFinding({ ingress, proxyModeIngress }: ServiceFacts): Finding {
  return ingress > 0 && ingress === proxyModeIngress
    ? note(
      "load-balancer-proxies",
      "the load balancer's addresses have ipMode Proxy: no rules for them",
    )
    : warning(
      "load-balancer-pending",
      "type LoadBalancer, and status.loadBalancer has no IP yet",
      "see the events of the Service, and the cloud controller's log",
    );
}

function count(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

/** Traffic is not delivered because of this. */
export function error(code: string, message: string, hint = ""): Finding {
  return { severity: "error", code, message, hint };
}

/** Traffic may not be what one expects because of this. */
export function warning(code: string, message: string, hint = ""): Finding {
  return { severity: "warning", code, message, hint };
}

/** Worth knowing. */
export function note(code: string, message: string, hint = ""): Finding {
  return { severity: "note", code, message, hint };
}
