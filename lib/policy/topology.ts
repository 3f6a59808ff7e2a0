/**
 * Which endpoints take the traffic of a service port on this node: readiness, termination,
 * topology hints and traffic policies, as kube-proxy decides it (`CategorizeEndpoints`;
 * KEP-1669 terminating endpoints, KEP-2433 and KEP-3015 topology hints).
 *
 * @module
 */
import type { Endpoint } from "../model/cluster/objects.ts";

/** An endpoint with the number of the port that traffic goes to; no two have the same address and port. */
export interface Candidate {
  readonly endpoint: Endpoint;
  readonly port: number;
}

/** Where this node is. */
export interface Place {
  readonly nodeName: string;
  /** `""`: not known. */
  readonly zone: string;
}

/** What a service port asks for. */
export interface Need {
  /** Some traffic follows the Cluster policy. */
  readonly cluster: boolean;
  /** Some traffic follows the Local policy. */
  readonly local: boolean;
}

/** The endpoints in use, one list for each policy. */
export interface Chosen {
  readonly cluster: readonly Candidate[];
  readonly local: readonly Candidate[];
  /** Some endpoint of the service could take traffic, here or elsewhere. */
  readonly hasEndpoints: boolean;
}

/** Which hints of the endpoints hold on this node; `""`: none, every endpoint counts. */
export type TopologyMode = "" | "PreferSameNode" | "PreferSameZone";

const isReady = ({ endpoint }: Candidate): boolean => endpoint.ready;
const isLastResort = ({ endpoint }: Candidate): boolean => endpoint.serving && endpoint.terminating;

/** Chooses the endpoints for both policies; the Cluster and the Local list are decided apart. */
export function chooseEndpoints(
  candidates: readonly Candidate[],
  options: { readonly need: Need; readonly place: Place },
): Chosen {
  const { need, place } = options;
  const isLocal = ({ endpoint }: Candidate) => endpoint.nodeName === place.nodeName;
  const hints = need.cluster ? topologyMode(candidates, place) : "";
  const cluster = need.cluster
    ? readyElseTerminating(candidates, (candidate) => fitsTopology(candidate, hints, place))
    : [];
  const local = need.local ? readyElseTerminating(candidates.filter(isLocal), () => true) : [];
  return {
    cluster,
    local,
    hasEndpoints: cluster.length > 0 ||
      need.local && candidates.some((each) => isReady(each) || isLastResort(each)),
  };
}

/** Ready endpoints that fit; only where no ready one fits, those that still serve while they terminate. */
function readyElseTerminating(
  candidates: readonly Candidate[],
  fits: (candidate: Candidate) => boolean,
): readonly Candidate[] {
  const ready = candidates.filter((each) => isReady(each) && fits(each));
  return ready.length > 0 ? ready : candidates.filter(isLastResort);
}

/** Hints count only if every ready endpoint has one and one of them names this node or zone. */
export function topologyMode(candidates: readonly Candidate[], place: Place): TopologyMode {
  const ready = candidates.filter(isReady).map(({ endpoint }) => endpoint);
  if (ready.length === 0) return "";
  const agree = (hintsOf: (endpoint: Endpoint) => readonly string[], here: string) =>
    ready.every((each) => hintsOf(each).length > 0) &&
    ready.some((each) => hintsOf(each).includes(here));
  if (agree((each) => each.nodeHints, place.nodeName)) return "PreferSameNode";
  return agree((each) => each.zoneHints, place.zone) ? "PreferSameZone" : "";
}

function fitsTopology({ endpoint }: Candidate, hints: TopologyMode, place: Place): boolean {
  if (hints === "PreferSameNode") return endpoint.nodeHints.includes(place.nodeName);
  return hints === "" || endpoint.zoneHints.includes(place.zone);
}
