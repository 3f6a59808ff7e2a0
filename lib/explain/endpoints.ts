/** Explains for each endpoint of a service port why it is used on this node or not. */
import { hostPort } from "../model/cluster/names.ts";
import type { Endpoint, EndpointSlice, ServicePort } from "../model/cluster/objects.ts";
import { type DesiredServicePort, endpointsFor, isExternal } from "../model/kernel/desired.ts";
import {
  type Candidate,
  type Criteria,
  criteriaOf,
  type EndpointReason,
  findCandidates,
  indexPorts,
  isUsed,
  needOf,
  type NodeTopology,
  reasonFor,
  type TopologyMode,
} from "../policy/endpoints.ts";
import type { EndpointReport } from "./report.ts";

interface EndpointInputs {
  /** All slices of the Service, by name. */
  readonly slices: readonly EndpointSlice[];
  readonly port: ServicePort;
  readonly desired: DesiredServicePort;
  readonly place: NodeTopology;
}

/** Explains all endpoints of the family, in the order of the slices. */
export function explainEndpoints(
  { slices, port, desired, place }: EndpointInputs,
): { readonly endpoints: EndpointReport[]; readonly topology: TopologyMode } {
  const { family } = desired;
  const candidates = findCandidates(indexPorts(slices), {
    port,
    family,
    nodeName: place.nodeName,
  });
  const counted = new Map(candidates.map((each) => [each.endpoint, each]));
  const need = needOf(desired, { isExternal: isExternal(desired) });
  const choices = [
    ...need.cluster ? ["Cluster" as const] : [],
    ...need.local ? ["Local" as const] : [],
  ].map((policy): PolicyChoice => ({
    ...criteriaOf(candidates, { policy, place }),
    held: new Set(endpointsFor(desired, policy).map(endpointName)),
  }));
  const judge = (endpoint: Endpoint, slice: EndpointSlice, target: number | null): Judgement => {
    if (target === null) return unused("wrong-port", wrongPort(slice, port));
    const candidate = counted.get(endpoint);
    return candidate
      ? judgeCandidate(candidate, choices)
      : unused("duplicate", "another entry has this address and port");
  };
  const endpoints = slices.filter((slice) => slice.family === family).flatMap((slice) => {
    const target = slice.ports.find((each) =>
      each.name === port.name && each.protocol === port.protocol
    )?.port ?? null;
    return slice.endpoints.map((endpoint): EndpointReport => {
      const { address, nodeName: node = null, ...facts } = endpoint;
      const judgement = judge(endpoint, slice, target);
      return { address, node, ...facts, slice: slice.name, port: target, ...judgement };
    });
  });
  return { endpoints, topology: choices[0]?.topology ?? "" };
}

type Judgement = Pick<EndpointReport, "usedFor" | "code" | "reason">;

/** A traffic policy, and its endpoints in the rules. */
interface PolicyChoice extends Criteria {
  readonly held: ReadonlySet<string>;
}

function judgeCandidate(candidate: Candidate, choices: readonly PolicyChoice[]): Judgement {
  const { endpoint: { address, nodeName }, port } = candidate;
  const name = endpointName({ address, port });
  const usedFor = choices.filter(({ held }) => held.has(name)).map(({ policy }) => policy);
  const reasons = choices.map((choice) => reasonFor(candidate, choice));
  const reason = reasons.find(isUsed) ?? reasons[0] ?? "used";
  if (isUsed(reason) && usedFor.length === 0) {
    return unused("not-written", "chosen, but not in the rules yet");
  }
  if (!isUsed(reason) && usedFor.length > 0) {
    return { usedFor, code: "held", reason: "kept with the last good rules" };
  }
  const isPartly = reason === "used" && reasons.includes("not-local");
  const but = isPartly ? `; not for policy Local: on ${nodeName ?? "no named node"}` : "";
  const [code, sentence] = describe(reason, candidate.endpoint, choices[0]?.place);
  return { usedFor, code, reason: sentence + but };
}

/** Returns the code of a reason in the report, and its sentence. */
function describe(
  reason: EndpointReason,
  { nodeName, nodeHints, zoneHints }: Endpoint,
  place: NodeTopology | undefined,
): readonly [EndpointReport["code"], string] {
  switch (reason) {
    case "used":
      return [reason, "used"];
    case "last-resort":
      return [reason, "terminating, but it still serves, and no endpoint is ready"];
    case "not-ready":
      return [reason, "not ready: its readiness probe fails"];
    case "terminating":
      return [reason, "terminating: it still serves, but other endpoints are ready"];
    case "stopped":
      return ["terminating", "terminating, and does not serve any more"];
    case "other-node":
      return [reason, `hinted for node ${nodeHints.join(", ")}, not for this one`];
    case "other-zone":
      return [reason, `hinted for zone ${zoneHints.join(", ")}; this node is in ${place?.zone}`];
    case "not-local": {
      const where = nodeName === undefined ? "its node is not named" : `on ${nodeName}`;
      return [reason, `not on this node (${where}), and the policy is Local`];
    }
  }
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

/** Returns `10.0.0.1:80`, or the address alone without a port. */
export function endpointName({ address, port }: Pick<EndpointReport, "address" | "port">): string {
  return port === null ? address : hostPort(address, port);
}
