/**
 * Chooses the endpoints of a service port on this node: by readiness, termination, topology hints
 * and traffic policies. It follows kube-proxy (`CategorizeEndpoints`; KEP-1669 terminating
 * endpoints, KEP-2433 and KEP-3015 topology hints).
 *
 * @module
 */
import type { Endpoint } from "../model/cluster/objects.ts";

/** An endpoint with its target port. No two have the same address and port. */
export interface Candidate {
  readonly endpoint: Endpoint;
  readonly port: number;
}

/** The name and zone of this node. */
export interface Place {
  readonly nodeName: string;
  /** `""` if unknown. */
  readonly zone: string;
}

/** The lists that a service port needs. */
export interface Need {
  /** True if some traffic follows the Cluster policy. */
  readonly cluster: boolean;
  /** True if some traffic follows the Local policy. */
  readonly local: boolean;
}

/** The endpoints in use, one list for each policy. */
export interface Chosen {
  readonly cluster: readonly Candidate[];
  readonly local: readonly Candidate[];
  /** True if an endpoint could take traffic, here or elsewhere. */
  readonly hasEndpoints: boolean;
}

/** The hints that apply on this node; `""` if none does, so that every endpoint counts. */
export type TopologyMode = "" | "PreferSameNode" | "PreferSameZone";

const isReady = ({ endpoint }: Candidate): boolean => endpoint.ready;
const isLastResort = ({ endpoint }: Candidate): boolean => endpoint.serving && endpoint.terminating;

/** Chooses the endpoints of both policies independently. */
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

/** Returns ready endpoints that fit. If there are none, returns terminating endpoints that still serve. */
function readyElseTerminating(
  candidates: readonly Candidate[],
  fits: (candidate: Candidate) => boolean,
): readonly Candidate[] {
  const ready = candidates.filter((each) => isReady(each) && fits(each));
  return ready.length > 0 ? ready : candidates.filter(isLastResort);
}

/** Returns the hints in effect. Every ready endpoint must have one, and one must name this node or zone. */
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
