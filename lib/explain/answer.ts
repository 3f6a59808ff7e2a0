/** Answers a question about a Service or a packet from the objects, and adds what the kernel holds. */
import type { Backend, PortsOfNode } from "../backend/backend.ts";
import type { ExplainTarget, Sender, ServiceTarget } from "../config/command.ts";
import type { Configuration } from "../config/configuration.ts";
import { objectKey } from "../model/cluster/names.ts";
import type { ServiceStatus } from "../model/status.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import type { State } from "../policy/state.ts";
import type { Inspected } from "../source/objects/inspect.ts";
import { findTarget } from "./lookup.ts";
import type { Known } from "./packet.ts";
import { askAbout, explainTarget } from "./packet_report.ts";
import { EXPLAIN_VERSION, type PacketReport, type ServiceReport } from "./report.ts";
import { askedPorts, explainService } from "./service_report.ts";

/** An answer without the kernel's part, and the ports whose rules belong to it. */
export interface Answer {
  readonly explainVersion: typeof EXPLAIN_VERSION;
  readonly report: ServiceReport | PacketReport;
  readonly about: PortsOfNode;
}

interface AnswerOptions {
  /** The sender as the command line says it. */
  readonly from: Sender | undefined;
  /** Reads the Service and its slices as they are written; `undefined`: they cannot be read. */
  readonly inspect: (service: ServiceTarget) => Promise<Inspected | undefined>;
  /** Returns the status of a Service; `undefined`: no daemon answers. */
  readonly statusOf: (service: string) => ServiceStatus | undefined;
}

/** Gathers what an answer is worked out from. */
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

/** Answers from the objects alone. @throws {FatalError} if the question names no Service, or several */
export async function answer(
  asked: ExplainTarget,
  { known, from, inspect, statusOf }: AnswerOptions & { readonly known: Known },
): Promise<Answer> {
  const { node } = known.desired;
  const target = findTarget(asked, known);
  if (target.type === "packet") {
    const packet = askAbout(target, { ...known, from });
    const report = explainTarget({ ...known, ...packet });
    return { explainVersion: EXPLAIN_VERSION, report, about: { ports: packet.ports, node } };
  }
  const inspected = await inspect(target);
  const status = statusOf(objectKey(target));
  const report = explainService({ ...known, target, inspected, status });
  const ports = askedPorts(target, known);
  return { explainVersion: EXPLAIN_VERSION, report, about: { ports, node } };
}
