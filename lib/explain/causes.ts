/** Finds why a Service does not work, and what to do about it. */
import { FAMILIES, familyOf } from "../model/values/address.ts";
import { describeUnsupported, type Unsupported, worksWithout } from "../model/kernel/traits.ts";
import { isServiceKey, nameOfHolder } from "../policy/claimed.ts";
import type { Conflict } from "../policy/claims.ts";
import { error, note, sortFindings, warning } from "./finding.ts";
import { count } from "../model/values/text.ts";
import type { Inspector, ServiceFacts } from "../source/objects/inspect.ts";
import type { Finding, PortReport, UnusedSlice } from "./report.ts";
import type { ServiceTarget } from "../config/command.ts";
import { hostPort, objectKey, servicePortName } from "../model/cluster/names.ts";
import type { EndpointSlice, Refusal, Service } from "../model/cluster/objects.ts";
import { healthCheckAddresses } from "../healthcheck/node_ports.ts";
import type { DesiredNode } from "../model/kernel/desired.ts";

/** The facts about a Service and its ports. */
interface FindingInputs extends CauseInputs {
  readonly ports: readonly PortReport[];
  readonly conflicts: readonly Conflict[];
  /** Features that the Service needs and the kernel refuses. */
  readonly unsupported: readonly Unsupported[];
  /** True if this node's Node object was seen. */
  readonly isNodeKnown: boolean;
  readonly nodeName: string;
  readonly externalIPsAllowed: boolean;
}

/** Finds all causes of a Service that has a virtual IP, errors first, each once. */
export function findCauses(inputs: FindingInputs): Finding[] {
  const all = [
    ...conflictFindings(inputs),
    ...unsupportedFindings(inputs),
    ...sliceFindings(inputs),
    ...inputs.ports.flatMap((port) => portFindings(port, inputs)),
    ...serviceFindings(inputs),
  ];
  return sortFindings(all);
}

/** Names slices that are not used: an error if no other slice brings endpoints. */
function sliceFindings({ unusedSlices, ports }: FindingInputs): Finding[] {
  const isServed = ports.some(({ endpoints }) =>
    endpoints.some(({ usedFor }) => usedFor.length > 0)
  );
  return unusedSlices.map(({ slice, reason, endpoints }) =>
    (isServed ? warning : error)(
      "slice-unused",
      `EndpointSlice ${slice} (${count(endpoints, "endpoint")}) is not used: ${reason}`,
    )
  );
}

/** Conflicts that get a line of their own. */
const MOST_CONFLICTS = 20;

function conflictFindings({ conflicts }: FindingInputs): Finding[] {
  const more = conflicts.length - MOST_CONFLICTS;
  return conflicts.slice(0, MOST_CONFLICTS).map(conflictFinding).concat(
    more > 0 ? error("conflict", `… and ${count(more, "more conflict")}`) : [],
  );
}

function conflictFinding({ claim, holder, loser, because }: Conflict): Finding {
  return isServiceKey(holder)
    ? error(
      "conflict",
      `${claim} belongs to ${nameOfHolder(holder)}, ${because}; ${loser} gets it when that ` +
        "lets go",
      `give one of them another address or port: kubectl get service -n ` +
        `${holder.replace("/", " ")} -o yaml`,
    )
    : error(
      "conflict",
      `${claim} belongs to ${nameOfHolder(holder)}, ${because}; ${loser} does not get it`,
      "take it out of the Service's externalIPs, ports or status",
    );
}

/** Names features that nft or the kernel refuses, and families that the node does not have. */
function unsupportedFindings({ unsupported, service, node }: FindingInputs): Finding[] {
  const families = [...new Set(service.clusterIPs.map(familyOf))];
  const missing = families.filter((family) => !node.ipFamilies.includes(family));
  const say = missing.length === families.length ? error : warning;
  return [
    ...unsupported.map((each) =>
      worksWithout(each.feature)
        ? warning("not-supported", `not as asked on this node: ${describeUnsupported(each)}`)
        : error("not-supported", `refused on this node: ${describeUnsupported(each)}`)
    ),
    ...missing.map((family) =>
      say("no-ip-family", `no IPv${family} rules: this node has no IPv${family}`)
    ),
  ];
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
    ...service.affinitySeconds > 0 && (service.scheduler?.name ?? "random") !== "random"
      ? [warning(
        "scheduler-unused",
        `session affinity decides, not ${service.scheduler?.name}: a new client's endpoint is picked ` +
          "at random",
        "set sessionAffinity to None, or take the annotation signpost.dev/scheduler away",
      )]
      : [],
    ...isLocal && undetected.length > 0
      ? [warning(
        "pods-not-recognised",
        "external traffic policy Local, and no setting says which senders are pods: they are treated " +
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

/** Says why signpost makes no rules for a Service: it is malformed, not there, or not for a proxy. */
export function notProxied(
  target: ServiceTarget,
  { inspector, refused }: {
    readonly inspector: Pick<Inspector, "service"> | undefined;
    readonly refused: readonly Refusal[];
  },
): Finding {
  const key = objectKey(target);
  const refusal = refused.find((each) => each.kind === "Service" && each.key === key);
  if (refusal) return error("service-refused", `${key} is refused as malformed: ${refusal.reason}`);
  if (!inspector) {
    return error(
      "service-unknown",
      `the daemon has no Service ${key}, and the API server cannot be asked for it`,
      "signpost status shows what the watches wait for",
    );
  }
  const { service } = inspector;
  if (!service) {
    return error(
      "service-not-found",
      `there is no Service ${key}`,
      `kubectl get services -n ${target.namespace}`,
    );
  }
  if (service.otherProxy !== "") {
    return note(
      "other-proxy",
      `${key} is left to another proxy: label service.kubernetes.io/service-proxy-name=` +
        service.otherProxy,
    );
  }
  if (service.type === "ExternalName") {
    return note(
      "external-name",
      `${key} is a DNS alias (ExternalName): it has no address to proxy`,
    );
  }
  if (service.clusterIP === "None") {
    return note(
      "headless",
      `${key} is headless (clusterIP None): clients find its endpoints by DNS, no rules are made`,
    );
  }
  return error(
    "no-cluster-ip",
    `${key} has no cluster IP yet: the API server gives it one`,
    `kubectl get service -n ${key.replace("/", " ")} -o yaml`,
  );
}

/** The facts about a Service. */
interface CauseInputs {
  readonly service: Service;
  /** The Service as it is written. */
  readonly facts: ServiceFacts | undefined;
  /** Its slices that are used. */
  readonly slices: readonly EndpointSlice[];
  readonly node: DesiredNode;
  /** All addresses of this node, loopback included. */
  readonly ownAddresses: readonly string[];
  readonly unusedSlices: readonly UnusedSlice[];
}

/** Finds the causes that the port's endpoints and frontends show. */
function portFindings(port: PortReport, inputs: CauseInputs): Finding[] {
  const outcomes = port.frontends.flatMap(({ outcomes }) => outcomes);
  const usable = port.endpoints.filter(({ usedFor }) => usedFor.length > 0);
  const dead = outcomes.some(({ code }) => code === "no-endpoints");
  return [
    ...dead ? noEndpoints(port, inputs) : [],
    ...localFindings(port, inputs),
    ...sourceRangeFindings(port),
    ...usable.length > 0 && usable.every(({ code }) => code === "last-resort")
      ? [warning(
        "only-terminating",
        `${port.name} (IPv${port.family}): all endpoints in use are terminating`,
      )]
      : [],
  ];
}

/** Says why no endpoint of a port can be used. */
function noEndpoints(port: PortReport, inputs: CauseInputs): Finding[] {
  const { facts, slices } = inputs;
  const { family, endpoints } = port;
  const selector = facts?.selector ?? "";
  const where = `${port.name} (IPv${family})`;
  const pods = podsOf(inputs);
  if (endpoints.length === 0) {
    if (inputs.unusedSlices.length > 0) return [];
    if (slices.length > 0 && slices.every((slice) => slice.family !== family)) {
      return [
        error("no-slices-of-family", `${where}: no EndpointSlice has IPv${family} addresses`, pods),
      ];
    }
    return [noPods(inputs, { selector, pods })];
  }
  const wrongPort = endpoints.filter(({ code }) => code === "wrong-port");
  if (wrongPort.length === endpoints.length) {
    const otherName = otherPortName(port, inputs);
    if (otherName) return [otherName];
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

/**
 * Finds slices whose ports have no name of the Service's ports: they are matched by name. The EndpointSlice
 * controller takes the names over, so another program made these.
 */
function otherPortName(port: PortReport, { service, slices }: CauseInputs): Finding | undefined {
  const names = new Set(
    slices.filter(({ family }) => family === port.family)
      .flatMap(({ ports }) => ports.map(({ name }) => name)),
  );
  if (names.size === 0 || service.ports.some(({ name }) => names.has(name))) return undefined;
  const wanted =
    service.ports.find((each) => servicePortName(objectKey(service), each) === port.name)?.name ??
      "";
  const own = wanted === "" ? "has no name" : `is named "${wanted}"`;
  const given = [...names].map((name) => name === "" ? "a port without a name" : `"${name}"`);
  return error(
    "wrong-port-name",
    `${port.name} (IPv${port.family}): the Service's port ${own}, and its EndpointSlices have ` +
      given.join(", "),
    names.has("")
      ? "give the slice's port the name of the Service's port"
      : `name the Service's port ${given[0]}, or the slice's port as the Service's`,
  );
}

function noPods(
  { service, slices }: CauseInputs,
  { selector, pods }: { readonly selector: string; readonly pods: string },
): Finding {
  const name = objectKey(service);
  if (selector === "") {
    return error(
      "no-endpoints-given",
      `${name} has no selector, and nothing has made EndpointSlices with endpoints for it`,
      "make EndpointSlices with the label kubernetes.io/service-name, or set spec.selector",
    );
  }
  const seen = slices.length > 0
    ? "its EndpointSlices are empty"
    : "there is no EndpointSlice (or kube-controller-manager does not make them)";
  return error(
    "selector-matches-nothing",
    `the selector ${selector} matches no Pod of namespace ${service.namespace}: ${seen}`,
    `compare the labels: ${pods}`,
  );
}

function podsOf({ service, facts }: CauseInputs): string {
  const labels = facts?.selector ? ` -l ${facts.selector}` : "";
  return `kubectl get pods -n ${service.namespace}${labels} --show-labels`;
}

/** Names policies Local that have no endpoint here. */
function localFindings(port: PortReport, inputs: CauseInputs): Finding[] {
  const { service } = inputs;
  const isDropped = (isInternal: boolean) =>
    port.frontends.some(({ type, outcomes }) =>
      (type === "clusterIP") === isInternal &&
      outcomes.some(({ code }) => code === "no-local-endpoints")
    );
  const ready = port.endpoints.filter((each) => each.ready).map(({ node }) => node);
  const others = [...new Set(ready)].filter((node) => node !== null);
  const where = `${port.name} (IPv${port.family})`;
  const none = `and no ready endpoint is on this node` +
    (others.length === 0 ? "" : ` (they are on ${others.join(", ")})`);
  const { healthCheckNodePort } = service;
  return [
    ...isDropped(true)
      ? [error(
        "no-local-endpoints",
        `${where}: internal traffic policy Local, ${none}: all traffic is dropped`,
        "run a Pod of it on this node, or set internalTrafficPolicy to Cluster",
      )]
      : [],
    ...isDropped(false)
      ? [
        healthCheckNodePort === 0
          ? error(
            "no-local-endpoints",
            `${where}: external traffic policy Local, ${none}: traffic from outside is dropped`,
            "run a Pod of it on this node, or set externalTrafficPolicy to Cluster",
          )
          : warning(
            "no-local-endpoints",
            `${where}: external traffic policy Local, ${none}: traffic from outside is dropped, and ` +
              `load balancers that ask port ${healthCheckNodePort} pass this node by`,
            healthCheckHint(inputs),
          ),
      ]
      : [],
  ];
}

/** Names an address on which the health-check node port listens. */
function healthCheckHint({ service, ...where }: CauseInputs): string {
  const families = FAMILIES.filter((each) =>
    service.clusterIPs.some((ip) => familyOf(ip) === each)
  );
  const { loadBalancerIPs } = service;
  const [address] = healthCheckAddresses({ families, loadBalancerIPs }, where).flat();
  if (address === undefined) {
    return "no address of this node takes node ports: see nodePortAddresses";
  }
  const everywhere: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
  const host = everywhere[address] ?? address;
  return `ask it: curl http://${hostPort(host, service.healthCheckNodePort)}/`;
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
