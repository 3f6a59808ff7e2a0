/**
 * `signpost explain`: reads objects and kernel, and prints what becomes of a Service or a packet.
 *
 * @module
 */
import type { CommandOf, PacketTarget, ServiceTarget } from "../../config/command.ts";
import { FAMILIES, familyOf } from "../../model/values/address.ts";
import type { Finding as NodeFinding } from "../../model/status.ts";
import { objectKey } from "../../model/cluster/names.ts";
import { FatalError } from "../../model/values/errors.ts";
import { type Paint, renderReport } from "../output.ts";
import type { QueryContext } from "../context.ts";
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
import { findingsOf, isCurrent, type NodeState, objectFacts, readNodeState } from "../objects.ts";
import { renderPacket, renderService } from "./render.ts";
import { explainService } from "../../explain/service/service.ts";
import { traceConnection } from "../../explain/packet/trace_run.ts";
import { findApiServer, readSource } from "../../daemon/objects/source.ts";
import type { Kind } from "../../model/cluster/objects.ts";
import { fieldAt } from "../../model/values/record.ts";
import { WatchError } from "../../source/api/failure.ts";

/** What is asked. */
export type ExplainCommand = CommandOf<"explain">;

/**
 * Explains a Service or a packet on the standard output.
 *
 * @returns 0: traffic is delivered, or none of our business; 1: it is not
 * @throws {FatalError} where objects cannot be had
 */
export async function explain(command: ExplainCommand, context: QueryContext): Promise<number> {
  const { target, timeout } = command;
  const inspector = new Inspector(target.type === "service" ? target : { namespace: "", name: "" });
  const known = await readNodeState({
    ...context,
    timeout,
    ...target.type === "service" && { service: objectKey(target) },
    inspect: (kind, raw) => inspector.look(kind, raw),
  });
  const { state, backend, daemon, origin } = known;
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
    // The daemon that gave them has worked out their findings.
    objects: origin.from === "daemon" ? undefined : objectFacts(state),
    probed: [],
  };
  const asked = { ...known, command, context, world, nodeFindings: findingsOf(facts, daemon) };
  return target.type === "service"
    ? await printService(target, { ...asked, inspector })
    : await printPacket(target, asked);
}

interface Asked extends NodeState {
  readonly command: ExplainCommand;
  readonly context: QueryContext;
  readonly world: World;
  readonly nodeFindings: readonly NodeFinding[];
}

async function printService(
  target: ServiceTarget,
  asked: Asked & { readonly inspector: Inspector },
): Promise<number> {
  const { command, context, backend, state, world, inspector, nodeFindings, origin, daemon } =
    asked;
  const { configuration, nodeName, runtime } = context;
  const ports = state.desired.services.get(objectKey(target)) ?? [];
  // An API server that the daemon has lost is not waited for.
  const [isLookedAt, kernel] = await Promise.all([
    inspector.service ||
    isCurrent(origin, runtime.clock.now()) && lookAt(target, { ...context, inspector }),
    readKernel(backend, { ports, node: state.desired.node }),
  ]);
  const report = explainService({
    target,
    state,
    inspector: isLookedAt ? inspector : undefined,
    world,
    nodeName,
    origin,
    status: daemon?.service,
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
  const { command, context, backend, state, world, nodeFindings, origin } = asked;
  const { nodeName, runtime } = context;
  const match = findFrontend(target, world);
  const ports = match ? [match.servicePort] : [];
  const inputs = {
    target,
    from: command.from || undefined,
    state,
    world,
    nodeName,
    origin,
    kernel: await readKernel(backend, { ports, node: state.desired.node }),
    nodeFindings,
    ...command.conntrack && {
      connections: connectionsOf(ports, {
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

/** Milliseconds for the answers. */
const TIMEOUT = 1_000;

/**
 * Shows the Service and its slices to the inspector.
 *
 * @returns whether they could be looked at
 */
export async function lookAt(
  { namespace, name }: ServiceTarget,
  context: QueryContext & { readonly inspector: Inspector },
): Promise<boolean> {
  const { configuration: { signpost: { manifests } }, runtime, inspector } = context;
  if (manifests.includes("-")) return false;
  const inspect = (kind: Kind, raw: unknown) => inspector.look(kind, raw);
  if (manifests.length > 0) {
    await readSource({ ...context, inspect }, { sink: () => {} });
    return true;
  }
  const over = new AbortController();
  const signal = AbortSignal.any([context.signal, over.signal]);
  const waiting = runtime.clock.sleep(TIMEOUT, signal).then(() => over.abort());
  try {
    const { client } = await findApiServer(context);
    // Lists, for nodes need no permission to get single objects.
    const show = async (kind: Kind, path: string, query: Record<string, string>) => {
      for (const item of itemsOf(await client.json(path, { query, signal }))) inspect(kind, item);
    };
    const slices = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
    await Promise.all([
      show("Service", `/api/v1/namespaces/${namespace}/services`, {
        fieldSelector: `metadata.name=${name}`,
      }),
      show("EndpointSlice", slices, { labelSelector: `kubernetes.io/service-name=${name}` }),
    ]);
    return true;
  } catch (error) {
    if (!(error instanceof WatchError || error instanceof FatalError)) throw error;
    return false;
  } finally {
    over.abort();
    await waiting;
  }
}

function itemsOf(list: unknown): readonly unknown[] {
  const items = fieldAt(list, "items");
  return Array.isArray(items) ? items : [];
}
