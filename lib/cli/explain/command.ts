/** `signpost explain`: reads objects and kernel, and explains how this node handles a Service or a packet. */
import type { AskedService, CommandOf, PacketTarget, ServiceTarget } from "../../config/command.ts";
import { FAMILIES, familyOf } from "../../model/values/address.ts";
import type { Finding as NodeFinding } from "../../model/status.ts";
import { objectKey } from "../../model/cluster/names.ts";
import { FatalError } from "../../model/values/errors.ts";
import { type Paint, renderReport } from "../output.ts";
import type { QueryContext } from "../context.ts";
import { connectionsOf, readConnections, readKernel } from "../../explain/kernel.ts";
import { findFrontend, type World } from "../../explain/outcome.ts";
import { Inspector } from "../../source/objects/inspect.ts";
import { explainPacket } from "../../explain/packet.ts";
import { explainTarget, type PacketInputs, senderOf } from "../../explain/packet_report.ts";
import { findingsOf, isCurrent, type NodeState, objectFacts, readNodeState } from "../objects.ts";
import { type RenderOptions, renderPacket, renderService } from "./render.ts";
import { explainService } from "../../explain/service_report.ts";
import { traceConnection } from "../../explain/trace.ts";
import { findApiServer, readSource } from "../../daemon/objects/source.ts";
import type { Kind } from "../../model/cluster/objects.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { askServices } from "../client.ts";
import { fieldAt } from "../../model/values/record.ts";
import { WatchError } from "../../source/api/failure.ts";

type ExplainCommand = CommandOf<"explain">;

/** Gives `explain` its parts. */
interface ExplainContext extends QueryContext {
  /** Also shows the kernel's correct entries. */
  readonly isVerbose: boolean;
}

/**
 * Explains a Service or a packet on the standard output.
 * @returns 0 if traffic is delivered, or if signpost does not handle it; else 1
 * @throws {FatalError} if the objects cannot be read
 */
export async function explain(command: ExplainCommand, context: ExplainContext): Promise<number> {
  const { timeout } = command;
  const target = command.target.type === "packet"
    ? command.target
    : await locate(command.target, { ...context, timeout });
  const inspector = new Inspector(target.type === "service" ? target : { namespace: "", name: "" });
  const asked = { ...context, timeout, inspector };
  // The daemon keeps only a part of the objects, so ask the API server meanwhile.
  const early = target.type === "service" && context.configuredBy === "daemon"
    ? new Look(target, asked)
    : undefined;
  const known = await readNodeState({
    ...context,
    timeout,
    ...target.type === "service" && { service: objectKey(target) },
    inspect: (kind, raw) => inspector.look(kind, raw),
  }).catch((error) => {
    early?.end();
    throw error;
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
  const inputs = { ...known, command, context, world, nodeFindings: findingsOf(facts, daemon) };
  return target.type === "service"
    ? await printService(target, {
      ...inputs,
      inspector,
      looking: early ?? (inspector.service ? undefined : new Look(target, asked)),
    })
    : await printPacket(target, inputs);
}

interface Asked extends NodeState {
  readonly command: ExplainCommand;
  readonly context: ExplainContext;
  readonly world: World;
  readonly nodeFindings: readonly NodeFinding[];
}

async function printService(
  target: ServiceTarget,
  asked: Asked & { readonly inspector: Inspector; readonly looking: Look | undefined },
): Promise<number> {
  const { command, context, backend, state, world, nodeFindings, origin, daemon } = asked;
  const { inspector, looking } = asked;
  const { configuration, nodeName, runtime } = context;
  const ports = state.desired.services.get(objectKey(target)) ?? [];
  const kernel = await readKernel(backend, { ports, node: state.desired.node });
  // If the daemon has lost the API server, do not wait for it.
  const isLost = !isCurrent(origin, runtime.clock.now());
  const limit = isLost ? 0 : ports.length > 0 ? LIMIT_IF_KNOWN : LIMIT;
  const isLookedAt = looking === undefined || await looking.wait(limit);
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

/** Traces a packet if asked. If it cannot, it says why, and the rest of the answer stays. */
async function traceIfAsked(
  inputs: Omit<PacketInputs, "trace" | "traceProblem">,
  { command, context, world }: Asked,
): Promise<Pick<PacketInputs, "trace" | "traceProblem">> {
  const { target } = inputs;
  if (!command.trace) return { traceProblem: "" };
  const { sender } = senderOf({ ...inputs, source: target.source }, {
    ...inputs,
    cache: inputs.state.cache,
  });
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
  { command, context: { runtime, isVerbose }, render }: Asked & {
    readonly render: (report: Report, options: RenderOptions) => string;
  },
): Promise<void> {
  const { output } = command;
  const table = (shown: Report, paint: Paint) => render(shown, { paint, isVerbose });
  await runtime.print(renderReport(report, { output, runtime, table }));
}

/**
 * Returns the Service that a name means.
 * @throws {FatalError} if it is in no namespace, or in several
 */
async function locate(
  { type, namespace, name, port }: AskedService,
  options: QueryContext & { readonly timeout: number },
): Promise<ServiceTarget> {
  if (namespace !== undefined) return { type, namespace, name, port };
  const { configuredBy } = options;
  const keys = configuredBy === "daemon"
    ? await askServices(options, name)
    : await servicesNamed(name, options);
  const [key, ...others] = keys;
  if (key === undefined) {
    throw new FatalError(
      `no Service ${name} has a virtual IP in any namespace: name one that has none as NAMESPACE/${name}`,
    );
  }
  if (others.length > 0) {
    throw new FatalError(`${name} is in several namespaces, name one of ${keys.join(", ")}`);
  }
  return { type, namespace: key.split("/")[0] ?? "", name, port };
}

async function servicesNamed(
  name: string,
  options: QueryContext & { readonly timeout: number },
): Promise<readonly string[]> {
  if (options.configuration.signpost.manifests.includes("-")) {
    throw new FatalError(`the standard input can be read once: name NAMESPACE/${name}`);
  }
  const { state } = await readNodeState(options);
  return [...state.cache.services.keys()].filter((key) => key.endsWith(`/${name}`)).sort();
}

/** Milliseconds for the answers of the API server, if the Service has rules and if not. */
const LIMIT_IF_KNOWN = 150;
const LIMIT = 1_000;

/**
 * Reads the objects of one Service from their source: the daemon keeps no selectors, and no Services without virtual
 * IPs.
 */
class Look {
  readonly #clock: Clock;
  readonly #began: number;
  readonly #over = new AbortController();
  readonly #done: Promise<boolean>;

  /** Starts the reading. */
  constructor(target: ServiceTarget, context: QueryContext & { readonly inspector: Inspector }) {
    this.#clock = context.runtime.clock;
    this.#began = this.#clock.monotonic();
    const signal = AbortSignal.any([context.signal, this.#over.signal]);
    this.#done = lookAt(target, { ...context, signal });
  }

  /**
   * Waits until the inspector has seen all, or until the limit.
   * @param limit milliseconds since the start
   * @returns true if the inspector has seen all
   */
  async wait(limit: number): Promise<boolean> {
    const rest = limit - (this.#clock.monotonic() - this.#began);
    const late = rest > 0 ? this.#clock.sleep(rest, this.#over.signal).then(() => false) : false;
    const isDone = await Promise.race([this.#done, late]);
    this.end();
    return isDone;
  }

  /** Stops the reading. */
  end(): void {
    this.#over.abort();
  }
}

/** Shows the Service and its slices to the inspector. Returns true if it has seen them. */
async function lookAt(
  { namespace, name }: ServiceTarget,
  context: QueryContext & { readonly inspector: Inspector },
): Promise<boolean> {
  const { configuration: { signpost: { manifests } }, signal, inspector } = context;
  if (manifests.includes("-")) return false;
  const inspect = (kind: Kind, raw: unknown) => inspector.look(kind, raw);
  try {
    if (manifests.length > 0) {
      await readSource({ ...context, inspect }, { sink: () => {} });
      return true;
    }
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
    if (error instanceof WatchError || error instanceof FatalError || signal.aborted) return false;
    throw error;
  }
}

function itemsOf(list: unknown): readonly unknown[] {
  const items = fieldAt(list, "items");
  return Array.isArray(items) ? items : [];
}
