/** Finds why a Service does not work, and what to do about it. */
import type { ServiceTarget } from "../config/command.ts";
import { healthCheckAddresses } from "../healthcheck/node_ports.ts";
import {
  claimText,
  hostPort,
  objectKey,
  type ObjectName,
  servicePortName,
  splitKey,
} from "../model/cluster/names.ts";
import type { Service, ServicePort } from "../model/cluster/objects.ts";
import { REJECTIONS } from "../model/connections.ts";
import { describeUnsupported, worksWithout } from "../model/kernel/traits.ts";
import type { Conflict, ServiceStatus } from "../model/status.ts";
import { familyOf } from "../model/values/address.ts";
import { nearest } from "../model/values/nearest.ts";
import { count, grouped } from "../model/values/text.ts";
import { familiesOf, isServiceKey, nameOfHolder } from "../policy/service_claims.ts";
import type { Inspected, SliceFacts } from "../source/objects/inspect.ts";
import { clusterIPEndpoints, error, note, warning } from "./finding.ts";
import type { Known } from "./packet.ts";
import type { ExplainFinding, PortReport } from "./report.ts";

/** The known facts, and the Service that is asked about. */
export type ServiceInputs = Known & {
  readonly target: ServiceTarget;
  /** The objects as they are written; `undefined`: they could not be read. */
  readonly inspected: Inspected | undefined;
  /** `undefined`: no daemon answers. */
  readonly status: ServiceStatus | undefined;
};

/** A Service that has a virtual IP, and the ports that are asked about. `conflicts` are about these ports. */
type Causes = ServiceInputs & {
  readonly service: Service;
  readonly ports: readonly PortReport[];
  readonly unusedSlices: readonly SliceFacts[];
};

/** Finds all reasons why a Service does not work as its objects say. */
export function findCauses(inputs: Causes): ExplainFinding[] {
  const { service, target, ports, refused, status, cache } = inputs;
  const key = objectKey(service);
  const objects = [
    { name: `Service ${key}`, omitted: service.omitted },
    ...cache.slicesOf(key)
      .map((slice) => ({ name: `EndpointSlice ${objectKey(slice)}`, omitted: slice.omitted })),
  ];
  const has = service.ports.map(({ name, port, protocol }) =>
    `${name === "" ? "" : `${name} `}${port}/${protocol}`
  );
  return [
    ...conflictFindings(inputs),
    ...unsupportedFindings(inputs),
    ...sliceFindings(inputs),
    ...ports.flatMap((port) => [...portFindings(port, inputs)]),
    ...clusterIPEndpoints(
      ports.flatMap(({ endpoints }) => endpoints).filter(({ usedFor }) => usedFor.length > 0),
      inputs,
    ),
    ...serviceFindings(inputs),
    // A well-formed Service can be over a limit.
    ...refused.filter((each) => each.kind === "Service" && each.key === key)
      .map(({ reason }) => error("service-refused", `${key} is refused: ${reason}`)),
    ...statusFindings(status),
    ...service.ports.some((port) => isAsked(port, target)) ? [] : [
      error("no-such-port", `the Service has no port ${target.port}; it has ${has.join(", ")}`),
    ],
    ...inputs.inspected ? [] : [note(
      "objects-not-read",
      "the Service was not read from its source: its selector, target ports and unused slices are not known",
    )],
    ...objects.flatMap(({ name, omitted = [] }) =>
      omitted.map((reason) => warning("part-left-out", `${name}: a part is left out: ${reason}`))
    ),
  ];
}

export function isAsked(port: ServicePort | undefined, { port: asked }: ServiceTarget): boolean {
  return asked === undefined || port?.name === asked || String(port?.port) === asked;
}

/** Returns the findings on the daemon's status of a Service. */
export function statusFindings(status: ServiceStatus | undefined): ExplainFinding[] {
  if (status === undefined) return [];
  const { service, state, reason, rejected = [] } = status;
  return [
    ...state === "pending"
      ? [warning("pending", `the kernel has an older state of ${service}: ${reason}`)]
      : [],
    ...rejected.filter(({ perSecond }) => perSecond > 0).map((each) => {
      const { reason = "no-endpoints", port, protocol, frontend, perSecond, connections } = each;
      return warning(
        "connections-rejected",
        `${count(Math.ceil(perSecond), "connection")} a second to port ${port}/${protocol} ` +
          `(${frontend}), ${grouped(connections)} in all: ${REJECTIONS[reason]}`,
      );
    }),
  ];
}

/** The most conflicts with a line of their own. */
const MOST_CONFLICTS = 20;

function conflictFindings({ conflicts }: Causes): ExplainFinding[] {
  const more = conflicts.length - MOST_CONFLICTS;
  return [
    ...conflicts.slice(0, MOST_CONFLICTS).map(conflictFinding),
    ...more > 0 ? [error("conflict", `… and ${count(more, "more conflict")}`)] : [],
  ];
}

function conflictFinding({ claim, holder, loser, because }: Conflict): ExplainFinding {
  const belongs = `${claimText(claim)} belongs to ${nameOfHolder(holder)}, ${because}; ${loser}`;
  return isServiceKey(holder)
    ? error(
      "conflict",
      `${belongs} gets it when ${nameOfHolder(holder)} releases it`,
      `give one of them another address or port: ${showService(holder)}`,
    )
    : error(
      "conflict",
      `${belongs} does not get it`,
      "take it out of the Service's externalIPs, ports or status",
    );
}

function showService(key: string): string {
  return `kubectl get service -n ${key.replace("/", " ")} -o yaml`;
}

/** Finds features that nft or the kernel refuses, and families that the node lacks. */
function unsupportedFindings({ service, desired }: Causes): ExplainFinding[] {
  const families = familiesOf(service);
  const missing = families.filter((family) => !desired.node.ipFamilies.includes(family));
  const make = missing.length === families.length ? error : warning;
  return [
    ...desired.unsupported().filter((each) => each.service === objectKey(service)).map((each) =>
      worksWithout(each.feature)
        ? warning("not-supported", `not as asked on this node: ${describeUnsupported(each)}`)
        : error("not-supported", `refused on this node: ${describeUnsupported(each)}`)
    ),
    ...missing.map((family) =>
      make("no-ip-family", `no IPv${family} rules: this node has no IPv${family}`)
    ),
  ];
}

/** Finds unused slices. This is an error if no other slice has endpoints. */
function sliceFindings({ unusedSlices, ports }: Causes): ExplainFinding[] {
  const isServed = ports.some(({ endpoints }) => endpoints.some(({ usedFor }) => usedFor.length));
  const make = isServed ? warning : error;
  return unusedSlices.map(({ slice, reason, endpoints }) =>
    make(
      "slice-unused",
      `EndpointSlice ${slice} (${count(endpoints, "endpoint")}) is not used: ${reason}`,
    )
  );
}

/** Finds reasons in the endpoints and frontends of a port. */
function* portFindings(port: PortReport, inputs: Causes): Generator<ExplainFinding> {
  const { endpoints, sourceRanges, frontends } = port;
  const where = `${port.name} (IPv${port.family})`;
  const outcomes = frontends.flatMap(({ outcomes }) => outcomes);
  const causes = { ...inputs, where };
  if (outcomes.some(({ code }) => code === "no-endpoints")) {
    const finding = noEndpoints(port, causes);
    if (finding) yield finding;
  }
  yield* localFindings(port, causes);
  const addresses = frontends
    .filter(({ type, heldBy }) => type === "loadBalancerIP" && heldBy === null)
    .map(({ address }) => address);
  if (sourceRanges.length > 0 && addresses.length > 0) {
    yield warning(
      "source-ranges",
      `${addresses.join(", ")} takes connections from ${sourceRanges.join(", ")} only ` +
        "(spec.loadBalancerSourceRanges); all others are dropped",
      "ask about one source: signpost explain SOURCE to IP:PORT",
    );
  }
  const used = endpoints.filter(({ usedFor }) => usedFor.length > 0);
  if (used.length > 0 && used.every(({ code }) => code === "last-resort")) {
    yield warning("only-terminating", `${where}: all endpoints in use are terminating`);
  }
}

/** The facts about a port, and its name for messages. */
type PortCauses = Causes & { readonly where: string };

/** Finds the reason why a port has no usable endpoint. */
function noEndpoints(port: PortReport, inputs: PortCauses): ExplainFinding | undefined {
  const { service, unusedSlices, cache, where } = inputs;
  const facts = inputs.inspected?.service;
  const { family, endpoints, targetPort } = port;
  const slices = cache.slicesOf(objectKey(service));
  const labels = facts?.selector ? ` -l ${facts.selector}` : "";
  const pods = `kubectl get pods -n ${service.namespace}${labels} --show-labels`;
  const [first, second] = endpoints;
  if (first) {
    const none = (one: string, several: string) =>
      second ? `none of ${endpoints.length} endpoints ${several}` : `its only endpoint ${one}`;
    if (endpoints.some(({ code }) => code !== "wrong-port")) {
      return error(
        "none-ready",
        `${where}: ${none("is not", "is")} ready`,
        `see why the readiness probes fail: ${pods}`,
      );
    }
    const target = targetPort === "" ? "" : ` targetPort ${targetPort}:`;
    return otherPortName(port, inputs) ?? error(
      "wrong-target-port",
      `${where}:${target} ${none("does not have", "has")} this port (${first.reason})`,
      "give targetPort the name or number of a port of the Pods' containers",
    );
  }
  if (unusedSlices.length > 0) return undefined;
  if (slices.length > 0 && slices.every((slice) => slice.family !== family)) {
    const message = `${where}: no EndpointSlice has IPv${family} addresses`;
    return error("no-slices-of-family", message, pods);
  }
  const name = objectKey(service);
  if (!service.hasSelector) {
    return error(
      "no-endpoints-given",
      `${name} has no selector, and nothing has made EndpointSlices with endpoints for it`,
      "make EndpointSlices with the label kubernetes.io/service-name, or set spec.selector",
    );
  }
  const seen = slices.length > 0
    ? "its EndpointSlices are empty"
    : "the Service has no EndpointSlice (or kube-controller-manager does not make them)";
  return error(
    "selector-matches-nothing",
    `the selector${
      facts ? ` ${facts.selector}` : ""
    } matches no Pod of namespace ${service.namespace}: ${seen}`,
    `compare the labels: ${pods}`,
  );
}

/**
 * Finds slices whose ports are named unlike the Service's ports. Ports are matched by name. The EndpointSlice
 * controller copies the names, so another program made these slices.
 */
function otherPortName(port: PortReport, inputs: PortCauses): ExplainFinding | undefined {
  const { service, cache, where } = inputs;
  const key = objectKey(service);
  const slices = cache.slicesOf(key).filter(({ family }) => family === port.family);
  const names = new Set(slices.flatMap(({ ports }) => ports.map(({ name }) => name)));
  if (names.size === 0 || service.ports.some(({ name }) => names.has(name))) return undefined;
  const wanted = service.ports.find((each) => servicePortName(key, each) === port.name)?.name;
  const own = wanted ? `is named "${wanted}"` : "has no name";
  const found = [...names].map((name) => name === "" ? "a port without a name" : `"${name}"`);
  return error(
    "wrong-port-name",
    `${where}: the Service's port ${own}, and its EndpointSlices have ${found.join(", ")}`,
    names.has("")
      ? "give the slice's port the name of the Service's port"
      : `name the Service's port ${
        found[0]
      }, or give the slice's port the name of the Service's port`,
  );
}

/** Finds traffic policies Local without an endpoint on this node. */
function* localFindings(
  { frontends, endpoints }: PortReport,
  inputs: PortCauses,
): Generator<ExplainFinding> {
  const { service: { healthCheckNodePort }, where } = inputs;
  const code = "no-local-endpoints";
  const dropping = frontends.filter(({ outcomes }) => outcomes.some((each) => each.code === code));
  const nodes = new Set(endpoints.filter(({ ready }) => ready).map(({ node }) => node));
  const others = [...nodes].filter((node) => node !== null);
  const none = "and no ready endpoint is on this node" +
    (others.length === 0 ? "" : ` (they are on ${others.join(", ")})`);
  if (dropping.some(({ type }) => type === "clusterIP")) {
    yield error(
      code,
      `${where}: internal traffic policy Local, ${none}: all traffic is dropped`,
      "run a Pod of it on this node, or set internalTrafficPolicy to Cluster",
    );
  }
  if (dropping.every(({ type }) => type === "clusterIP")) return;
  const message =
    `${where}: external traffic policy Local, ${none}: traffic from outside is dropped`;
  yield healthCheckNodePort === 0
    ? warning(
      code,
      message,
      "run a Pod of it on this node, or set externalTrafficPolicy to Cluster",
    )
    : warning(
      code,
      `${message}, and load balancers that ask port ${healthCheckNodePort} pass this node by`,
      healthCheckHint(inputs),
    );
}

/** Returns a command that asks the health-check node port, at one of its addresses. */
function healthCheckHint({ service, desired: { node }, ownAddresses }: Causes): string {
  const { healthCheckNodePort } = service;
  // Other load-balancer IPs may be another node's.
  const loadBalancerIPs = service.loadBalancerIPs.filter((each) => ownAddresses.includes(each));
  const place = { families: familiesOf(service), loadBalancerIPs };
  const [address] = healthCheckAddresses(place, { node, ownAddresses }).flat();
  if (address === undefined) {
    return "node ports are open on none of this node's addresses: see nodePortAddresses";
  }
  const everywhere: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
  return `ask it: curl http://${hostPort(everywhere[address] ?? address, healthCheckNodePort)}/`;
}

function* serviceFindings(inputs: Causes): Generator<ExplainFinding> {
  const { service, desired: { node }, cache, nodeName, externalIPsAllowed } = inputs;
  const families = familiesOf(service);
  for (const address of [...service.externalIPs, ...service.loadBalancerIPs]) {
    if (families.includes(familyOf(address))) continue;
    yield warning(
      "family-without-cluster-ip",
      `${address} is not served: the Service has no IPv${familyOf(address)} cluster IP`,
      "set ipFamilyPolicy and ipFamilies",
    );
  }
  if (!externalIPsAllowed && service.externalIPs.length > 0) {
    const message = "externalIPs are switched off (AllowServiceExternalIPs=false)";
    yield warning("external-ips-off", message);
  }
  if (service.type === "LoadBalancer" && service.loadBalancerIPs.length === 0) {
    yield service.isProxiedByBalancer
      ? note(
        "load-balancer-proxies",
        "the load balancer's addresses have ipMode Proxy: signpost makes no rules for them",
      )
      : warning(
        "load-balancer-pending",
        "type LoadBalancer, and status.loadBalancer has no IP yet",
        "see the events of the Service, and the cloud controller's log",
      );
  }
  const scheduler = service.scheduler?.name ?? "random";
  if (service.affinitySeconds > 0 && scheduler !== "random") {
    yield warning(
      "scheduler-unused",
      `session affinity decides, not ${scheduler}: a new client's endpoint is picked at random`,
      "set sessionAffinity to None, or remove the annotation signpost.dev/scheduler",
    );
  }
  const isLocal = service.externalTrafficPolicy === "Local";
  if (isLocal && families.some((family) => !node.families[family].localDetector)) {
    yield warning(
      "pods-not-recognised",
      "external traffic policy Local, and no setting says which senders are pods: they are treated " +
        "like clients from outside",
      "set clusterCIDR, or another detectLocalMode",
    );
  }
  if (!cache.node) {
    yield warning(
      "node-unknown",
      `no Node ${nodeName} was seen: its zone and addresses are not known`,
      "set --hostname-override to the Node's name",
    );
  }
}

/** Finds the reason why a Service has no rules: it is malformed, does not exist, or is not for a proxy. */
export function notProxied(
  { target, inspected, refused, cache }: ServiceInputs,
): ExplainFinding {
  const services = cache.services.keys();
  const key = objectKey(target);
  const refusal = refused.find((each) => each.kind === "Service" && each.key === key);
  if (refusal) return error("service-refused", `${key} is refused as malformed: ${refusal.reason}`);
  if (!inspected) {
    return error(
      "service-unknown",
      `Service ${key} has no rules here, and the API server did not answer if it exists.` +
        suggestService(target, services),
      "signpost status shows the state of the watches",
    );
  }
  const { service } = inspected;
  if (!service) {
    return error(
      "service-not-found",
      `Service ${key} does not exist.${suggestService(target, services)}`,
      `kubectl get services -n ${target.namespace}`,
    );
  }
  const { otherProxy, type, clusterIP } = service;
  if (otherProxy !== undefined) {
    const label = `service.kubernetes.io/service-proxy-name=${otherProxy || '""'}`;
    return note("other-proxy", `${key} is left to another proxy: label ${label}`);
  }
  if (type === "ExternalName") {
    const message = `${key} is a DNS alias (ExternalName): it has no address to proxy`;
    return note("external-name", message);
  }
  if (clusterIP === "None") {
    return note(
      "headless",
      `${key} is headless (clusterIP None): clients find its endpoints by DNS, so it needs no rules`,
    );
  }
  const message = `${key} has no cluster IP yet: the API server gives it one`;
  return error("no-cluster-ip", message, showService(key));
}

/** Names the nearest Service as ` Did you mean shop/web?`: in another namespace, else of a similar name. */
export function suggestService(
  { namespace, name }: Partial<ObjectName> & Pick<ObjectName, "name">,
  services: Iterable<string>,
): string {
  const keys = [...services];
  const nameOf = (key: string) => splitKey(key).name;
  const named = (wanted: string | undefined) => keys.find((key) => nameOf(key) === wanted);
  const found = named(name) ??
    (namespace === undefined
      ? named(nearest(name, keys.map(nameOf)))
      : nearest(objectKey({ namespace, name }), keys));
  return found === undefined ? "" : ` Did you mean ${found}?`;
}
