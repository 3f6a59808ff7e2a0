/**
 * Why one port of a Service does not work.
 *
 * @module
 */
import { healthCheckAddresses } from "../../healthcheck/node_ports.ts";
import { FAMILIES, familyOf } from "../../model/values/address.ts";
import type { DesiredNode } from "../../model/kernel/desired.ts";
import { hostPort, objectKey, servicePortName } from "../../model/cluster/names.ts";
import type { EndpointSlice, Service } from "../../model/cluster/objects.ts";
import { error, warning } from "./finding.ts";
import { count } from "../../model/values/text.ts";
import type { ServiceFacts } from "../../source/objects/inspect.ts";
import type { Finding, PortReport, UnusedSlice } from "../report.ts";

/** What the causes are found in. */
export interface CauseInputs {
  readonly service: Service;
  /** What the Service says of itself. */
  readonly facts: ServiceFacts | undefined;
  /** Its slices that are used. */
  readonly slices: readonly EndpointSlice[];
  readonly node: DesiredNode;
  /** All addresses of this node, loopback included. */
  readonly ownAddresses: readonly string[];
  readonly unusedSlices: readonly UnusedSlice[];
}

/** The causes that the port's endpoints and frontends show. */
export function portFindings(port: PortReport, inputs: CauseInputs): Finding[] {
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

/** Why no endpoint of a port can be used. */
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

/** Frontends where the Local policy has no endpoint here. */
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
