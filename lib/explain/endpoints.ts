/** Explains which endpoints of a service port are used on this node, and why others are not. */
import { hostPort } from "../model/cluster/names.ts";
import type {
  Endpoint,
  EndpointSlice,
  ServicePort,
  TrafficPolicy,
} from "../model/cluster/objects.ts";
import { type DesiredServicePort, endpointsFor, isExternal } from "../model/kernel/desired.ts";
import type { Candidate, Place, TopologyMode } from "../policy/endpoints.ts";
import type { EndpointReport } from "./report.ts";

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
  const counted = new Set(candidates.map(({ endpoint }) => endpoint));
  const names = (policy: TrafficPolicy) => new Set(endpointsFor(desired, policy).map(endpointName));
  const used = { Cluster: names("Cluster"), Local: names("Local") };
  const policies = policiesInUse(desired);
  return slices.filter(({ family }) => family === desired.family).flatMap((slice) => {
    const target = slice.ports.find((each) =>
      each.name === port.name && each.protocol === port.protocol
    )?.port ?? null;
    const judgeIn = (endpoint: Endpoint): Judgement => {
      if (target === null) return unused("wrong-port", wrongPort(slice, port));
      if (!counted.has(endpoint)) {
        return unused("duplicate", "another entry of this address and port counts");
      }
      const name = endpointName({ address: endpoint.address, port: target });
      const usedFor = POLICIES.filter((policy) => used[policy].has(name));
      return usedFor.length > 0
        ? inUse(endpoint, { usedFor, policies })
        : notUsed(endpoint, { ...inputs, policies });
    };
    return slice.endpoints.map((endpoint): EndpointReport => {
      const { address, nodeName, ...facts } = endpoint;
      const node = nodeName ?? null;
      return { address, node, ...facts, slice: slice.name, port: target, ...judgeIn(endpoint) };
    });
  });
}

type Judgement = Pick<EndpointReport, "usedFor" | "code" | "reason">;

const POLICIES: readonly TrafficPolicy[] = ["Cluster", "Local"];

/** Returns the policies that any traffic to the service port follows. */
function policiesInUse(desired: DesiredServicePort): ReadonlySet<TrafficPolicy> {
  const { internalTrafficPolicy, externalTrafficPolicy, clusterIPs } = desired;
  return new Set([
    ...clusterIPs.length > 0 ? [internalTrafficPolicy] : [],
    // Under Local, pods and the node itself use the cluster's endpoints.
    ...isExternal(desired) ? ["Cluster" as const, externalTrafficPolicy] : [],
  ]);
}

function inUse(
  { ready, nodeName }: Endpoint,
  { usedFor, policies }: {
    readonly usedFor: readonly TrafficPolicy[];
    readonly policies: ReadonlySet<TrafficPolicy>;
  },
): Judgement {
  if (!ready) {
    const reason = "terminating, but it still serves, and no ready one is left";
    return { usedFor, code: "last-resort", reason };
  }
  const isPartly = policies.has("Local") && !usedFor.includes("Local");
  const but = isPartly ? `; not for policy Local: on ${nodeName ?? "no named node"}` : "";
  return { usedFor, code: "used", reason: `used${but}` };
}

function notUsed(
  { ready, serving, terminating, nodeName, nodeHints, zoneHints }: Endpoint,
  { place, topology, policies }: Pick<EndpointInputs, "place" | "topology"> & {
    readonly policies: ReadonlySet<TrafficPolicy>;
  },
): Judgement {
  if (!ready && !terminating) return unused("not-ready", "not ready: its readiness probe fails");
  if (!ready) {
    const reason = serving ? ": it still serves, but ready ones are there" : ", and serves no more";
    return unused("terminating", `terminating${reason}`);
  }
  if (!policies.has("Cluster")) {
    const where = nodeName === undefined ? "no node is named" : `on ${nodeName}`;
    return policies.has("Local")
      ? unused("not-local", `not on this node (${where}), and the policy is Local`)
      : unused("no-policy", "the Service holds no address for this port");
  }
  return topology === "PreferSameNode"
    ? unused("other-node", `hinted for node ${nodeHints.join(", ")}, not for this one`)
    : unused(
      "other-zone",
      `hinted for zone ${zoneHints.join(", ")}; this node is in ${place.zone}`,
    );
}

function wrongPort(slice: EndpointSlice, port: ServicePort): string {
  const named = port.name === "" ? "a port without a name" : `port "${port.name}"`;
  const has = slice.ports.map(({ name, protocol, port: number }) =>
    `${name === "" ? "" : `"${name}" `}${number}/${protocol}`
  );
  return has.length === 0
    ? `its slice has no ports, wanted ${named}/${port.protocol}`
    : `its slice has ${has.join(", ")}, not ${named}/${port.protocol}`;
}

function unused(code: EndpointReport["code"], reason: string): Judgement {
  return { usedFor: [], code, reason };
}

/** Prints `10.0.0.1:80`, or the address alone if there is no port. */
export function endpointName({ address, port }: Pick<EndpointReport, "address" | "port">): string {
  return port === null ? address : hostPort(address, port);
}
