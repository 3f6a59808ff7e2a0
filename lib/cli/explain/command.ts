/**
 * `signpost explain`: reads objects and kernel, and prints what becomes of a Service or a packet.
 *
 * @module
 */
import type { PacketTarget, ServiceTarget } from "../../config/flags/arguments.ts";
import type { Backend } from "../../backend/backend.ts";
import { usedBackend } from "../../backend/choose.ts";
import type { Command } from "../../config/flags/command.ts";
import { FAMILIES, familyOf } from "../../model/values/address.ts";
import type { Finding as NodeFinding } from "../../model/finding.ts";
import { objectKey } from "../../model/cluster/names.ts";
import { FatalError } from "../../model/values/fatal.ts";
import { type Paint, renderReport } from "../output.ts";
import type { QueryContext } from "../query.ts";
import { readState } from "../../daemon/start/read_state.ts";
import type { State } from "../../policy/view.ts";
import { connectionsOf } from "../../explain/kernel/connections.ts";
import { findFrontend } from "../../explain/frontend.ts";
import { Inspector } from "../../source/objects/inspect.ts";
import { readConnections, readKernel } from "../../explain/kernel/kernel_read.ts";
import type { World } from "../../explain/packet/outcome.ts";
import { explainPacket } from "../../explain/packet/packet.ts";
import {
  explainTarget,
  type PacketInputs,
  senderOfPacket,
} from "../../explain/packet/packet_report.ts";
import { askDaemonOf, findingsOf, objectFacts } from "../check/findings.ts";
import { renderPacket } from "./render_packet.ts";
import { renderService } from "./render_service.ts";
import { explainService } from "../../explain/service/service.ts";
import { traceConnection } from "../../explain/packet/trace_run.ts";
import { lookAtUnlisted } from "./unlisted.ts";

/** What is asked. */
export type ExplainCommand = Extract<Command, { readonly name: "explain" }>;

/** Milliseconds for the API server to deliver everything. */
const READ_TIMEOUT = 30_000;

/**
 * Explains a Service or a packet on the standard output.
 *
 * @returns 0: traffic is delivered, or none of our business; 1: it is not
 * @throws {FatalError} where objects cannot be had
 */
export async function explain(command: ExplainCommand, context: QueryContext): Promise<number> {
  const { target } = command;
  const backend = await usedBackend(context);
  const inspector = new Inspector(target.type === "service" ? target : { namespace: "", name: "" });
  const state = await readState({
    ...context,
    backend,
    timeout: READ_TIMEOUT,
    inspect: (kind, raw) => inspector.look(kind, raw),
  });
  const world: World = {
    state: state.desired,
    traits: backend.traits,
    ownAddresses: [...context.runtime.addresses(), ...state.cache.node?.addresses ?? []],
    rules: backend.describe(state.desired.node),
  };
  const { configuration, nodeName, runtime } = context;
  const facts = {
    nodeName,
    configuration,
    traits: backend.traits,
    interfaceAddresses: runtime.addresses(),
    apiServerAddresses: state.apiServerAddresses,
    objects: objectFacts(state),
    probed: [],
  };
  const daemon = await askDaemonOf(nodeName, configuration.signpost);
  const nodeFindings = findingsOf(facts, daemon);
  const asked = { command, context, backend, state, world, nodeFindings };
  return target.type === "service"
    ? await printService(target, { ...asked, inspector })
    : await printPacket(target, asked);
}

interface Asked {
  readonly command: ExplainCommand;
  readonly context: QueryContext;
  readonly backend: Backend;
  readonly state: State;
  readonly world: World;
  readonly nodeFindings: readonly NodeFinding[];
}

async function printService(
  target: ServiceTarget,
  asked: Asked & { readonly inspector: Inspector },
): Promise<number> {
  const { command, context, backend, state, world, inspector, nodeFindings } = asked;
  const { configuration, nodeName, runtime } = context;
  if (!inspector.service) await lookAtUnlisted(target, { ...context, inspector });
  const kernel = await readKernel(backend);
  const ports = state.desired.services.get(objectKey(target)) ?? [];
  const report = explainService({
    target,
    state,
    inspector,
    world,
    nodeName,
    externalIPsAllowed: configuration.featureGates["AllowServiceExternalIPs"] !== false,
    kernel,
    nodeFindings,
    ...command.conntrack && {
      connections: connectionsOf(ports, {
        entries: await readConnections(runtime.runner, FAMILIES),
        ownAddresses: world.ownAddresses,
      }),
    },
  });
  await print(report, { ...asked, render: renderService });
  return report.verdict === "broken" ? 1 : 0;
}

async function printPacket(target: PacketTarget, asked: Asked): Promise<number> {
  const { command, context, backend, state, world, nodeFindings } = asked;
  const { nodeName, runtime } = context;
  const match = findFrontend(target, world);
  const inputs = {
    target,
    from: command.from,
    state,
    world,
    nodeName,
    kernel: await readKernel(backend),
    nodeFindings,
    ...command.conntrack && {
      connections: connectionsOf(match ? [match.servicePort] : [], {
        entries: await readConnections(runtime.runner, [familyOf(target.address)]),
        ownAddresses: world.ownAddresses,
      }),
    },
  };
  const report = explainTarget({ ...inputs, ...await traceIfAsked(inputs, asked) });
  await print(report, { ...asked, render: renderPacket });
  return report.findings.some(({ severity }) => severity === "error") ? 1 : 0;
}

/** That a trace is not possible is no reason to withhold the rest of the answer. */
async function traceIfAsked(
  inputs: Omit<PacketInputs, "trace" | "traceProblem">,
  { command, context, world }: Asked,
): Promise<Pick<PacketInputs, "trace" | "traceProblem">> {
  const { target } = inputs;
  if (!command.trace) return { traceProblem: "" };
  const { sender } = senderOfPacket(inputs);
  if (sender !== "node" || target.protocol === "sctp") {
    const traceProblem = target.protocol === "sctp"
      ? "SCTP packets cannot be sent from here: no trace"
      : "only this node's own packets can be sent from here: no trace (--from node)";
    return { traceProblem };
  }
  const { address, port, protocol, source } = target;
  try {
    const trace = await traceConnection({
      packet: target,
      source,
      outcome: explainPacket({ sender, source, address, port, protocol }, world),
      ...context,
    });
    return { trace, traceProblem: "" };
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    return { traceProblem: error.message };
  }
}

async function print<Report extends object>(
  report: Report,
  { command, context: { runtime }, render }: Asked & {
    readonly render: (report: Report, paint: Paint) => string;
  },
): Promise<void> {
  const { output } = command;
  await runtime.print(renderReport(report, { output, runtime, table: render }));
}
