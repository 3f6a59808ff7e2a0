/** Answers a question about a Service or a packet from the objects. */
import type { Backend, PortsOfNode } from "../backend/backend.ts";
import type { ExplainTarget, PacketTarget, Sender, ServiceTarget } from "../config/command.ts";
import type { Configuration } from "../config/configuration.ts";
import { objectKey, type ObjectName } from "../model/cluster/names.ts";
import type { HistoryEntry, ServiceStatus } from "../model/status.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import type { State } from "../policy/state.ts";
import { familyOf } from "../model/values/address.ts";
import { FatalError } from "../model/values/errors.ts";
import type { EndpointPod, Inspected } from "../source/objects/inspect.ts";
import { findTarget } from "./lookup.ts";
import type { Known } from "./packet.ts";
import { askAbout, explainTarget } from "./packet_report.ts";
import { EXPLAIN_VERSION, type PacketReport, type ServiceReport } from "./report.ts";
import { askedPorts, explainService } from "./service_report.ts";

/** An answer without the kernel's part, and the service ports that it is about. */
export interface Answer {
  readonly explainVersion: typeof EXPLAIN_VERSION;
  readonly report: ServiceReport | PacketReport;
  readonly about: PortsOfNode;
}

interface AnswerOptions {
  /** The sender that the command line names. */
  readonly from: Sender | undefined;
  /** Reads the Service and its slices from their source; `undefined`: they cannot be read. */
  readonly inspect: (service: ServiceTarget) => Promise<Inspected | undefined>;
  /** Returns a pod that is an endpoint, by each address; `undefined`: it cannot be read. */
  readonly locate: (
    pod: ObjectName,
  ) => Promise<readonly Pick<EndpointPod, "address">[] | undefined>;
  /** Returns the last changes of a Service; none without a daemon. */
  readonly historyOf: (service: string) => readonly HistoryEntry[];
  /** Returns the status of a Service; `undefined`: no daemon answers. */
  readonly statusOf: (service: string) => Promise<ServiceStatus> | undefined;
}

/** Gathers the facts for an answer. */
export function factsOf(
  { state, backend, configuration, runtime, ...rest }:
    & Pick<Known, "nodeName" | "origin" | "nodeFindings">
    & {
      readonly state: State;
      readonly backend: Pick<Backend, "traits" | "rules">;
      readonly configuration: Configuration;
      readonly runtime: Pick<Runtime, "addresses">;
    },
): Known {
  return {
    ...state,
    nodeName: rest.nodeName,
    origin: rest.origin,
    nodeFindings: rest.nodeFindings,
    traits: backend.traits,
    ownAddresses: [...runtime.addresses(), ...state.cache.node?.addresses ?? []],
    rules: backend.rules.describe(state.desired.node),
    externalIPsAllowed: configuration.featureGates["AllowServiceExternalIPs"] !== false,
  };
}

/** Answers from the objects alone. @throws {FatalError} if the question does not name one Service */
export async function answer(
  asked: ExplainTarget,
  { known, from, inspect, locate, historyOf, statusOf }: AnswerOptions & { readonly known: Known },
): Promise<Answer> {
  const { node } = known.desired;
  const target = findTarget(asked, known);
  if (target.type === "packet") {
    const packet = askAbout(await withSource(target, locate), { ...known, from });
    const report = explainTarget({ ...known, ...packet });
    return { explainVersion: EXPLAIN_VERSION, report, about: { ports: packet.ports, node } };
  }
  const inspected = await inspect(target);
  const [status, history] = [await statusOf(objectKey(target)), historyOf(objectKey(target))];
  const report = explainService({ ...known, target, inspected, status, history });
  const ports = askedPorts(target, known);
  return { explainVersion: EXPLAIN_VERSION, report, about: { ports, node } };
}

/** Adds the address of the sending pod to a packet. @throws {FatalError} if it is not known */
async function withSource(
  target: PacketTarget,
  locate: AnswerOptions["locate"],
): Promise<PacketTarget> {
  const { pod: { namespace = "default", name } = {}, address } = target;
  if (name === undefined) return target;
  const pods = await locate({ namespace, name });
  const found = pods?.find((each) => familyOf(each.address) === familyOf(address));
  if (found) return { ...target, source: found.address };
  const reason = pods === undefined
    ? "the EndpointSlices were not read"
    : pods.length === 0
    ? "it is not an endpoint of a Service, and signpost does not read other pods"
    : `it has no address of the IP family of ${address}`;
  throw new FatalError(
    `the address of the pod ${namespace}/${name} is not known, because ${reason}: ` +
      `give its IP address, see kubectl get pod -n ${namespace} ${name} -o wide`,
  );
}
