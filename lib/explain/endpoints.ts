/**
 * Explains which endpoints of a service port are used on this node, and why others are not.
 *
 * @module
 */
import { isExternal } from "../policy/frontend.ts";
import {
  type Candidate,
  findCandidates,
  indexPorts,
  type Place,
  topologyMode,
} from "../policy/endpoints.ts";
import type { DesiredServicePort, Destination } from "../model/kernel/desired.ts";
import { hostPort } from "../model/cluster/names.ts";
import type {
  Endpoint,
  EndpointSlice,
  ServicePort,
  TrafficPolicy,
} from "../model/cluster/objects.ts";

/** The reason why an endpoint is used or not. */
export type EndpointCode =
  | "used"
  | "last-resort"
  | "not-ready"
  | "terminating"
  | "other-zone"
  | "other-node"
  | "not-local"
  | "wrong-port"
  | "duplicate"
  | "no-policy";

/** One endpoint of a slice. */
export interface EndpointReport {
  readonly address: string;
  /** `null`: the slice has no such port. */
  readonly port: number | null;
  /** Name of its node; `null`: the slice does not say. */
  readonly node: string | null;
  readonly slice: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly zoneHints: readonly string[];
  readonly nodeHints: readonly string[];
  /** The policies whose traffic it takes; empty: it is not used. */
  readonly usedFor: readonly TrafficPolicy[];
  readonly code: EndpointCode;
  /** One phrase. */
  readonly reason: string;
}

/** The parts of the report. */
export interface EndpointInputs {
  /** All slices of the Service, by name. */
  readonly slices: readonly EndpointSlice[];
  readonly port: ServicePort;
  readonly desired: DesiredServicePort;
  readonly place: Place;
}

/** Explains all endpoints of the family, in the order of the slices. */
export function explainEndpoints(inputs: EndpointInputs): EndpointReport[] {
  const { slices, port, desired, place } = inputs;
  const { family } = desired;
  const candidates = findCandidates(indexPorts(slices), { port, family, nodeName: place.nodeName });
  const counted = new Map(candidates.map((each) => [each.endpoint, each]));
  return slices.filter((slice) => slice.family === family).flatMap((slice) => {
    const target = slice.ports.find((each) =>
      each.name === port.name && each.protocol === port.protocol
    );
    return slice.endpoints.map((endpoint): EndpointReport => {
      const candidate = counted.get(endpoint);
      const facts = factsOf(endpoint, { slice: slice.name, port: target?.port ?? null });
      if (!target) return { ...facts, ...unused("wrong-port", wrongPort(slice, port)) };
      if (candidate === undefined) {
        return {
          ...facts,
          ...unused("duplicate", "another entry of this address and port counts"),
        };
      }
      return { ...facts, ...judge(candidate, { ...inputs, candidates }) };
    });
  });
}

type Judgement = Pick<EndpointReport, "usedFor" | "code" | "reason">;

/** Returns the policies that any traffic to the service port follows. */
function policiesInUse(desired: DesiredServicePort): ReadonlySet<TrafficPolicy> {
  const { internalTrafficPolicy, externalTrafficPolicy, clusterIPs } = desired;
  return new Set([
    ...clusterIPs.length > 0 ? [internalTrafficPolicy] : [],
    // Under Local, pods and the node itself use the cluster's endpoints.
    ...isExternal(desired) ? ["Cluster" as const, externalTrafficPolicy] : [],
  ]);
}

function judge(
  candidate: Candidate,
  options: EndpointInputs & { readonly candidates: readonly Candidate[] },
): Judgement {
  const { desired, place, candidates } = options;
  const { endpoint } = candidate;
  const isIn = (list: readonly Destination[]) =>
    list.some(({ address, port }) => address === endpoint.address && port === candidate.port);
  const usedFor: TrafficPolicy[] = [
    ...isIn(desired.clusterEndpoints) ? ["Cluster" as const] : [],
    ...isIn(desired.localEndpoints) ? ["Local" as const] : [],
  ];
  if (usedFor.length > 0) return used(endpoint, usedFor, policiesInUse(desired));
  if (!endpoint.ready) return unready(endpoint);
  const policies = policiesInUse(desired);
  if (!policies.has("Cluster")) {
    const place = endpoint.nodeName === undefined ? "no node is named" : `on ${endpoint.nodeName}`;
    return policies.has("Local")
      ? unused("not-local", `not on this node (${place}), and the policy is Local`)
      : unused("no-policy", "the Service holds no address for this port");
  }
  const hints = topologyMode(candidates, place);
  return hints === "PreferSameNode"
    ? unused("other-node", `hinted for node ${endpoint.nodeHints.join(", ")}, not for this one`)
    : unused(
      "other-zone",
      `hinted for zone ${endpoint.zoneHints.join(", ")}; this node is in ${place.zone}`,
    );
}

function used(
  { ready, nodeName }: Endpoint,
  usedFor: readonly TrafficPolicy[],
  policies: ReadonlySet<TrafficPolicy>,
): Judgement {
  if (!ready) {
    return {
      usedFor,
      code: "last-resort",
      reason: "terminating, but it still serves, and no ready one is left",
    };
  }
  const isPartly = policies.has("Local") && !usedFor.includes("Local");
  const reason = isPartly
    ? `used; not for policy Local: on ${nodeName ?? "no named node"}`
    : "used";
  return { usedFor, code: "used", reason };
}

function unready({ serving, terminating }: Endpoint): Judgement {
  if (!terminating) return unused("not-ready", "not ready: its readiness probe fails");
  return serving
    ? unused("terminating", "terminating: it still serves, but ready ones are there")
    : unused("terminating", "terminating, and serves no more");
}

function wrongPort(slice: EndpointSlice, port: ServicePort): string {
  const wanted = `${
    port.name === "" ? "a port without a name" : `port "${port.name}"`
  }/${port.protocol}`;
  const has = slice.ports.map(({ name, protocol, port: number }) =>
    `${name === "" ? "" : `"${name}" `}${number}/${protocol}`
  );
  return has.length === 0
    ? `its slice has no ports, wanted ${wanted}`
    : `its slice has ${has.join(", ")}, not ${wanted}`;
}

function unused(code: EndpointCode, reason: string): Judgement {
  return { usedFor: [], code, reason };
}

function factsOf(
  endpoint: Endpoint,
  place: Pick<EndpointReport, "slice" | "port">,
): Omit<EndpointReport, keyof Judgement> {
  const { address, nodeName, ready, serving, terminating, zoneHints, nodeHints } = endpoint;
  return {
    address,
    node: nodeName ?? null,
    ready,
    serving,
    terminating,
    zoneHints,
    nodeHints,
    ...place,
  };
}

/** Prints `10.0.0.1:80`, or the address alone if there is no port. */
export function endpointName({ address, port }: Pick<EndpointReport, "address" | "port">): string {
  return port === null ? address : hostPort(address, port);
}
