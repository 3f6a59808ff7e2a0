/** `signpost explain`: reads objects and kernel, and explains how this node handles a Service or a packet. */
import type { AskedService, CommandOf, PacketTarget, ServiceTarget } from "../../config/command.ts";
import { findApiServer, inspectManifests } from "../../daemon/objects/source.ts";
import { readConnections, readKernel } from "../../explain/kernel.ts";
import type { Known } from "../../explain/packet.ts";
import { askAbout, explainTarget } from "../../explain/packet_report.ts";
import { askedPorts, explainService } from "../../explain/service_report.ts";
import { traceConnection } from "../../explain/trace.ts";
import { objectKey } from "../../model/cluster/names.ts";
import type { Kind } from "../../model/cluster/objects.ts";
import { FatalError } from "../../model/values/errors.ts";
import { fieldAt } from "../../model/values/record.ts";
import { WatchError } from "../../source/api/failure.ts";
import { type Inspected, Inspector } from "../../source/objects/inspect.ts";
import { askServices } from "../client.ts";
import type { QueryContext } from "../context.ts";
import { findingsOf, isCurrent, type NodeState, readNodeState } from "../objects.ts";
import { type Paint, renderReport } from "../output.ts";
import { renderPacket, renderService } from "./render.ts";

type ExplainCommand = CommandOf<"explain">;

interface ExplainContext extends QueryContext {
  readonly command: ExplainCommand;
  /** Also shows the kernel's correct entries. */
  readonly isVerbose: boolean;
}

/** Explains a Service or a packet. @returns 1 if traffic is not delivered @throws {FatalError} without objects */
export async function explain(
  command: ExplainCommand,
  options: Omit<ExplainContext, "command">,
): Promise<number> {
  const context = { ...options, command };
  return command.target.type === "service"
    ? await answerService(command.target, context)
    : await answerPacket(command.target, context);
}

async function answerService(asked: AskedService, context: ExplainContext): Promise<number> {
  const { command, configuredBy, runtime, isVerbose } = context;
  const { name } = asked;
  const namespace = asked.namespace ??
    (configuredBy === "daemon" ? namespaceOf(name, await askServices(context, name)) : undefined);
  const inspector = new Inspector(name);
  const inspect = (kind: Kind, raw: unknown) => inspector.look(kind, raw);
  const service = namespace === undefined ? undefined : objectKey({ namespace, name });
  const reading = readNodeState({ ...context, timeout: command.timeout, service, inspect });
  const look = (namespace: string) => lookAt({ namespace, name }, { ...context, reading });
  // The daemon keeps only a part of the objects, so ask the API server meanwhile.
  const early = configuredBy === "daemon" && namespace !== undefined ? look(namespace) : undefined;
  const node = await reading;
  const { state, backend, daemon, origin } = node;
  const named = () => [...state.cache.services.keys()].filter((key) => key.endsWith(`/${name}`));
  const target = { ...asked, namespace: namespace ?? namespaceOf(name, named().sort()) };
  const ports = state.desired.services.get(objectKey(target)) ?? [];
  const known = knownOf(node, context);
  const seen = inspector.in(target.namespace);
  const isSeen = origin.from === "manifests" || seen.service !== undefined;
  const [kernel, inspected, connections] = await Promise.all([
    readKernel(backend, { ports: askedPorts(target, state), node: state.desired.node }),
    isSeen ? seen : early ?? look(target.namespace),
    command.conntrack ? readConnections(ports, { ...known, runner: runtime.runner }) : undefined,
  ]);
  const status = daemon?.service;
  const report = explainService({ ...known, kernel, connections, target, inspected, status });
  const table = (shown: typeof report, paint: Paint) => renderService(shown, { paint, isVerbose });
  await runtime.print(renderReport(report, { output: command.output, runtime, table }));
  return report.verdict === "broken" ? 1 : 0;
}

async function answerPacket(target: PacketTarget, context: ExplainContext): Promise<number> {
  const { command, runtime, isVerbose } = context;
  const node = await readNodeState({ ...context, timeout: command.timeout });
  const known = knownOf(node, context);
  const asked = askAbout(target, { ...known, from: command.from || undefined });
  const { backend, state: { desired } } = node;
  const [kernel, connections] = await Promise.all([
    readKernel(backend, { ports: asked.ports, node: desired.node }),
    command.conntrack
      ? readConnections(asked.ports, { ...known, runner: runtime.runner })
      : undefined,
  ]);
  const trace = command.trace ? await traceConnection(asked, context) : undefined;
  const report = explainTarget({ ...known, ...asked, trace, kernel, connections });
  const table = (shown: typeof report, paint: Paint) => renderPacket(shown, { paint, isVerbose });
  await runtime.print(renderReport(report, { output: command.output, runtime, table }));
  return report.findings.some(({ severity }) => severity === "error") ? 1 : 0;
}

function knownOf(
  { state, backend, daemon, origin }: NodeState,
  { configuration, nodeName, runtime }: QueryContext,
): Omit<Known, "kernel"> {
  const { traits } = backend;
  const { cache, desired } = state;
  const interfaceAddresses = runtime.addresses();
  const facts = {
    nodeName,
    configuration,
    traits,
    interfaceAddresses,
    apiServerAddresses: state.apiServerAddresses,
    // The daemon that gave them has worked out their findings.
    objects: origin.from === "daemon" ? undefined : { node: cache.node, desired },
    probed: [],
  };
  return {
    ...state,
    traits,
    ownAddresses: [...interfaceAddresses, ...cache.node?.addresses ?? []],
    rules: backend.describe(desired.node),
    nodeName,
    origin,
    externalIPsAllowed: configuration.featureGates["AllowServiceExternalIPs"] !== false,
    nodeFindings: findingsOf(facts, daemon),
  };
}

/** Returns the namespace of the only Service. @throws {FatalError} if it is in no namespace, or in several */
function namespaceOf(name: string, keys: readonly string[]): string {
  const [key, ...others] = keys;
  if (key === undefined) {
    throw new FatalError(
      `no Service ${name} has a virtual IP in any namespace: name one that has none as NAMESPACE/${name}`,
    );
  }
  if (others.length > 0) {
    throw new FatalError(`${name} is in several namespaces, name one of ${keys.join(", ")}`);
  }
  return key.split("/")[0] ?? "";
}

/** Milliseconds for the answers of the API server since it was asked, if the Service has rules and if not. */
const LIMIT_IF_KNOWN = 150;
const LIMIT = 1_000;

/**
 * Reads the Service and its slices from their source: the daemon keeps no selectors, and lists for a proxy leave some
 * Services out. @param options `reading` says how long to wait @returns `undefined`: they were not read in time
 */
async function lookAt(
  { namespace, name }: Pick<ServiceTarget, "namespace" | "name">,
  options: ExplainContext & { readonly reading: Promise<NodeState> },
): Promise<Inspected | undefined> {
  const { configuration: { signpost: { manifests } }, runtime: { clock } } = options;
  if (manifests.includes("-")) return undefined;
  const began = clock.monotonic();
  const inspector = new Inspector(name);
  const inspect = (kind: Kind, raw: unknown) => inspector.look(kind, raw);
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  const readApi = async () => {
    const { client } = await findApiServer(options);
    // Lists, for nodes need no permission to get single objects.
    const lists = [
      ["Service", `/api/v1/namespaces/${namespace}/services`, {
        fieldSelector: `metadata.name=${name}`,
      }],
      ["EndpointSlice", `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`, {
        labelSelector: `kubernetes.io/service-name=${name}`,
      }],
    ] as const;
    await Promise.all(lists.map(async ([kind, path, query]) => {
      const items = fieldAt(await client.json(path, { query, signal }), "items");
      for (const item of Array.isArray(items) ? items : []) inspect(kind, item);
    }));
  };
  const looking = manifests.length > 0
    ? inspectManifests({ ...options, signal, inspect })
    : readApi();
  const late = async () => {
    const { state, origin } = await options.reading;
    // If the daemon has lost the API server, do not wait for it.
    if (!isCurrent(origin, clock.now())) return undefined;
    const ports = state.desired.services.get(objectKey({ namespace, name })) ?? [];
    const limit = ports.length > 0 ? LIMIT_IF_KNOWN : LIMIT;
    await clock.sleep(Math.max(0, began + limit - clock.monotonic()), signal);
    return undefined;
  };
  try {
    return await Promise.race([looking.then(() => inspector.in(namespace)), late()]);
  } catch (error) {
    if (error instanceof WatchError || error instanceof FatalError || signal.aborted) {
      return undefined;
    }
    throw error;
  } finally {
    over.abort();
  }
}
