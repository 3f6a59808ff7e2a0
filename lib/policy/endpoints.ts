/**
 * Turns the slices of a Service into the destinations of a port, in slot order.
 * Readiness, termination, topology hints and traffic policies choose the endpoints, as in kube-proxy
 * (`CategorizeEndpoints`; KEP-1669 terminating endpoints, KEP-2433 and KEP-3015 topology hints).
 */
import type { Family } from "../model/values/address.ts";
import type { DesiredServicePort, Destination } from "../model/kernel/desired.ts";
import { hostPort } from "../model/cluster/names.ts";
import { compact } from "../model/values/lists.ts";
import type {
  Endpoint,
  EndpointSlice,
  ServicePort,
  TrafficPolicy,
} from "../model/cluster/objects.ts";

/** The most endpoints that are sorted by address. The kernel's state then follows from the objects alone. */
const MAX_SORTED = 32;

export type PortIndex = ReadonlyMap<string, readonly SlicePort[]>;

interface SlicePort {
  readonly slice: EndpointSlice;
  readonly port: number;
}

/** Indexes slices by family, protocol and port name: in each slice, the first port of a name (discovery.k8s.io/v1). */
export function indexPorts(slices: readonly EndpointSlice[]): PortIndex {
  const index = new Map<string, SlicePort[]>();
  for (const slice of slices) {
    if (slice.endpoints.length === 0) continue;
    for (const each of slice.ports) {
      const found = index.getOrInsert(portKey(each, slice.family), []);
      if (found.at(-1)?.slice !== slice) found.push({ slice, port: each.port });
    }
  }
  return index;
}

export function portKey(
  { name, protocol }: Pick<ServicePort, "name" | "protocol">,
  family: Family,
): string {
  return `${family} ${protocol} ${name}`;
}

/** Indexes the ports of a Service by `portKey`. */
export function portsByKey(
  ports: readonly DesiredServicePort[],
): Map<string, DesiredServicePort> {
  return new Map(ports.map((port) => [portKey(port, port.family), port]));
}

/** Returns the endpoints of a port by address and port. Of equal ones, the highest rank wins, then the first slice. */
export function findCandidates(
  index: PortIndex,
  options: {
    readonly port: Pick<ServicePort, "name" | "protocol">;
    readonly family: Family;
    readonly nodeName: string;
  },
): Candidate[] {
  const { port, family, nodeName } = options;
  const named: Candidate[] = [];
  for (const { slice, port: target } of index.get(portKey(port, family)) ?? []) {
    for (const endpoint of slice.endpoints) named.push({ endpoint, port: target });
  }
  const candidates: Candidate[] = [];
  for (const each of named.sort(byAddress)) {
    const last = candidates.at(-1);
    if (last === undefined || byAddress(last, each) !== 0) candidates.push(each);
    else if (rank(each, nodeName) > rank(last, nodeName)) candidates.splice(-1, 1, each);
  }
  return candidates;
}

/** Returns the rank of an entry. A new pod may have the address of a pod that still terminates. */
function rank({ endpoint }: Candidate, nodeName: string): number {
  return (endpoint.terminating ? 0 : 4) + (endpoint.ready ? 2 : 0) +
    (endpoint.nodeName === nodeName ? 1 : 0);
}

/** Compares by address and port. Equal candidates stay in the order of their slices. */
function byAddress(a: Candidate, b: Candidate): number {
  const one = a.endpoint.address;
  const other = b.endpoint.address;
  if (one === other) return a.port - b.port;
  return one < other ? -1 : 1;
}

/** An endpoint with its target port. No two have the same address and port. */
export interface Candidate {
  readonly endpoint: Endpoint;
  readonly port: number;
}

export interface NodeTopology {
  readonly nodeName: string;
  /** `""` if unknown. */
  readonly zone: string;
}

/** The policies that traffic to a service port follows. At least one is set. */
export interface Need {
  readonly cluster: boolean;
  readonly local: boolean;
}

export function needOf(
  port: Pick<DesiredServicePort, "internalTrafficPolicy" | "externalTrafficPolicy">,
  { isExternal }: { readonly isExternal: boolean },
): Need {
  const { internalTrafficPolicy, externalTrafficPolicy } = port;
  return {
    // Under the external policy Local, pods and the node use the cluster's endpoints (short circuit).
    cluster: internalTrafficPolicy === "Cluster" || isExternal,
    local: internalTrafficPolicy === "Local" || (externalTrafficPolicy === "Local" && isExternal),
  };
}

export interface Chosen {
  readonly cluster: readonly Candidate[];
  readonly local: readonly Candidate[];
  /** True if an endpoint could take traffic, here or elsewhere. */
  readonly hasEndpoints: boolean;
}

/** The hints that apply on this node; `""` if every endpoint counts. */
export type TopologyMode = "" | "PreferSameNode" | "PreferSameZone";

/** The reason why a policy uses an endpoint, or does not. `explain` has a sentence for each. */
export type EndpointReason =
  | "used"
  /** It terminates and still serves, and no ready endpoint can be used. */
  | "last-resort"
  | "not-ready"
  /** It terminates and still serves, but ready endpoints can be used. */
  | "terminating"
  /** It terminates and does not serve any more. */
  | "stopped"
  | "other-node"
  | "other-zone"
  | "not-local";

/** The facts by which a policy chooses endpoints. */
export interface Criteria {
  readonly policy: TrafficPolicy;
  readonly place: NodeTopology;
  readonly topology: TopologyMode;
  /** True if the policy can use a ready endpoint. */
  readonly hasReady: boolean;
}

const isReady = ({ endpoint }: Candidate): boolean => endpoint.ready;
const isLastResort = ({ endpoint }: Candidate): boolean => endpoint.serving && endpoint.terminating;

/** Chooses the endpoints of both policies independently. */
export function chooseEndpoints(
  candidates: readonly Candidate[],
  { need, place }: { readonly need: Need; readonly place: NodeTopology },
): Chosen {
  const choose = (policy: TrafficPolicy) => {
    const criteria = criteriaOf(candidates, { policy, place });
    return candidates.filter((each) => isUsed(reasonFor(each, criteria)));
  };
  const cluster = need.cluster ? choose("Cluster") : [];
  const local = need.local ? choose("Local") : [];
  return {
    cluster,
    local,
    hasEndpoints: cluster.length > 0 ||
      need.local && candidates.some((each) => isReady(each) || isLastResort(each)),
  };
}

export function isUsed(reason: EndpointReason): boolean {
  return reason === "used" || reason === "last-resort";
}

export function criteriaOf(
  candidates: readonly Candidate[],
  { policy, place }: Pick<Criteria, "policy" | "place">,
): Criteria {
  const topology = policy === "Cluster" ? topologyMode(candidates, place) : "";
  const criteria = { policy, place, topology, hasReady: true };
  return { ...criteria, hasReady: candidates.some((each) => reasonFor(each, criteria) === "used") };
}

/** Returns the reason why a policy uses one of the candidates, or does not. */
export function reasonFor(
  { endpoint }: Candidate,
  { policy, place, topology, hasReady }: Criteria,
): EndpointReason {
  const { ready, serving, terminating, nodeName } = endpoint;
  if (!ready && !terminating) return "not-ready";
  if (!ready && !serving) return "stopped";
  if (policy === "Local" && nodeName !== place.nodeName) return "not-local";
  if (!ready) return hasReady ? "terminating" : "last-resort";
  switch (topology) {
    case "":
      return "used";
    case "PreferSameNode":
      return endpoint.nodeHints.includes(place.nodeName) ? "used" : "other-node";
    case "PreferSameZone":
      return endpoint.zoneHints.includes(place.zone) ? "used" : "other-zone";
  }
}

/** Returns the hints in effect. Every ready endpoint must have one, and one must name this node or zone. */
function topologyMode(candidates: readonly Candidate[], place: NodeTopology): TopologyMode {
  const ready = candidates.filter(isReady).map(({ endpoint }) => endpoint);
  if (ready.length === 0) return "";
  const agree = (hintsOf: (endpoint: Endpoint) => readonly string[], here: string) =>
    ready.every((each) => hintsOf(each).length > 0) &&
    ready.some((each) => hintsOf(each).includes(here));
  if (agree((each) => each.nodeHints, place.nodeName)) return "PreferSameNode";
  return agree((each) => each.zoneHints, place.zone) ? "PreferSameZone" : "";
}

/** Returns the chosen endpoints by slot. A long list keeps the slots of `previous`, so that a change moves few. */
export function toDestinations(
  chosen: readonly Candidate[],
  options: {
    readonly previous: readonly Destination[];
    readonly place: NodeTopology;
    /** True if packets of other nodes' pods may reach them with their own source. */
    readonly isShortCircuit: boolean;
  },
): readonly Destination[] {
  const { previous } = options;
  const wanted = chosen.map((each) => destination(each, options));
  if (wanted.length <= MAX_SORTED || previous.length === 0) return compact(wanted);
  return keepSlots(wanted, previous);
}

function destination(
  { endpoint, port }: Candidate,
  { place, isShortCircuit }: { readonly place: NodeTopology; readonly isShortCircuit: boolean },
): Destination {
  const local = endpoint.nodeName === place.nodeName;
  const mayBeLocal = local || endpoint.nodeName === undefined;
  return { address: endpoint.address, port, local, hairpin: mayBeLocal || isShortCircuit };
}

/** Counts the equal endpoints at the start of two lists, without keys, which take longer. */
export function commonStart(list: readonly Destination[], other: readonly Destination[]): number {
  let i = 0;
  for (; i < list.length; i++) {
    if (list[i]?.address !== other[i]?.address || list[i]?.port !== other[i]?.port) break;
  }
  return i;
}

/** Keeps each endpoint in its slot. New endpoints fill the holes, then the last endpoints do. */
function keepSlots(
  wanted: readonly Destination[],
  previous: readonly Destination[],
): Destination[] {
  const start = commonStart(wanted, previous);
  // Keys cost more than lookups, so only endpoints that may have a slot get a key.
  const known = new Set(previous.slice(start).map(({ address }) => address));
  const { kept = [], added = [] } = Object.groupBy(
    wanted.slice(start),
    ({ address }) => known.has(address) ? "kept" : "added",
  );
  const waiting = new Map(kept.map((each) => [keyOf(each), each]));
  const slots = previous.slice(start, wanted.length).map((old) => {
    const key = keyOf(old);
    const same = waiting.get(key);
    waiting.delete(key);
    return same;
  });
  const unplaced = [...waiting.values(), ...added].values();
  const filled = slots.flatMap((slot) => slot ?? unplaced.next().value ?? []);
  return [...wanted.slice(0, start), ...filled, ...unplaced];
}

export function keyOf({ address, port }: Pick<Destination, "address" | "port">): string {
  return hostPort(address, port);
}
