/** Explains which endpoints of a service port are used on this node, and why others are not. */
import type { Candidate, Place, TopologyMode } from "../policy/endpoints.ts";
import { type DesiredServicePort, type Destination, isExternal } from "../model/kernel/desired.ts";
import { hostPort } from "../model/cluster/names.ts";
import type {
  Endpoint,
  EndpointSlice,
  ServicePort,
  TrafficPolicy,
} from "../model/cluster/objects.ts";

/** The reason why an endpoint is used or not. */
type EndpointCode =
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
interface EndpointInputs {
  /** All slices of the Service, by name. */
  readonly slices: readonly EndpointSlice[];
  readonly port: ServicePort;
  readonly desired: DesiredServicePort;
  readonly place: Place;
  /** The endpoints of the port, each address and port once. */
  readonly candidates: readonly Candidate[];
  /** The hints that hold here. */
  readonly topology: TopologyMode;
}

/** Explains all endpoints of the family, in the order of the slices. */
export function explainEndpoints(inputs: EndpointInputs): EndpointReport[] {
  const { slices, port, desired, candidates } = inputs;
  const { family, clusterEndpoints, localEndpoints } = desired;
  const used = { Cluster: namesOf(clusterEndpoints), Local: namesOf(localEndpoints) };
  const policies = policiesInUse(desired);
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
      return { ...facts, ...judge(candidate, { ...inputs, used, policies }) };
    });
  });
}

/** Returns the names of endpoints, as `endpointName` prints them. */
function namesOf(endpoints: readonly Destination[]): ReadonlySet<string> {
  return new Set(endpoints.map(endpointName));
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

const POLICIES: readonly TrafficPolicy[] = ["Cluster", "Local"];

function judge(
  { endpoint, port }: Candidate,
  { place, topology, used, policies }: Pick<EndpointInputs, "place" | "topology"> & {
    /** The names of the endpoints that each policy uses. */
    readonly used: Readonly<Record<TrafficPolicy, ReadonlySet<string>>>;
    readonly policies: ReadonlySet<TrafficPolicy>;
  },
): Judgement {
  const name = endpointName({ address: endpoint.address, port });
  const usedFor = POLICIES.filter((policy) => used[policy].has(name));
  if (usedFor.length > 0) return inUse(endpoint, usedFor, policies);
  if (!endpoint.ready) return unready(endpoint);
  if (!policies.has("Cluster")) {
    const place = endpoint.nodeName === undefined ? "no node is named" : `on ${endpoint.nodeName}`;
    return policies.has("Local")
      ? unused("not-local", `not on this node (${place}), and the policy is Local`)
      : unused("no-policy", "the Service holds no address for this port");
  }
  return topology === "PreferSameNode"
    ? unused("other-node", `hinted for node ${endpoint.nodeHints.join(", ")}, not for this one`)
    : unused(
      "other-zone",
      `hinted for zone ${endpoint.zoneHints.join(", ")}; this node is in ${place.zone}`,
    );
}

function inUse(
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
