/** `signpost explain`: explains a Service or a packet, by the daemon or by the objects, and reads the kernel. */
import { usedBackend } from "../../backend/choose.ts";
import type { CommandOf } from "../../config/command.ts";
import { readInspected, readPods } from "../../daemon/objects/inspected.ts";
import { type Answer, answer } from "../../explain/answer.ts";
import { readKernel } from "../../explain/kernel.ts";
import { packetWithKernel } from "../../explain/packet_report.ts";
import { probe, probesOf } from "../../explain/probe.ts";
import type { ProbeReport, ServiceReport } from "../../explain/report.ts";
import { serviceWithKernel } from "../../explain/service_report.ts";
import { traceConnection } from "../../explain/trace.ts";
import { readTraffic } from "../../explain/traffic.ts";
import type { Kind } from "../../model/cluster/objects.ts";
import { Inspector } from "../../source/objects/inspect.ts";
import { ask } from "../../system/prober.ts";
import { askExplanation, NoDaemonError } from "../client.ts";
import type { QueryContext } from "../context.ts";
import { printAge, readKnown } from "../objects.ts";
import { type Paint, renderReport } from "../output.ts";
import { renderPacket, renderService } from "./render.ts";

interface ExplainContext extends QueryContext {
  readonly command: CommandOf<"explain">;
  /** True to show the kernel's correct entries, too. */
  readonly isVerbose: boolean;
}

/** Explains a Service or a packet. @returns 1 if traffic is not delivered @throws {FatalError} without objects */
export async function explain(
  command: CommandOf<"explain">,
  options: Omit<ExplainContext, "command">,
): Promise<number> {
  const context = { ...options, command };
  const { configuration, runtime, isVerbose } = options;
  const { report, about } = await answerOfDaemon(context) ?? await answerHere(context);
  const backend = await usedBackend({
    ...options,
    configuration: { ...configuration, mode: report.mode },
  });
  const isAsked = command.conntrack;
  const isCounted = report.kind === "service" && about.ports.length > 0;
  const listing = { ...runtime, ownAddresses: runtime.addresses(), isAsked };
  const [kernel, probed, tracked] = await Promise.all([
    readKernel(backend, about),
    command.probe && report.kind === "service" ? probeService(report, context) : undefined,
    isAsked || isCounted ? readTraffic(about.ports, listing) : undefined,
  ]);
  const connections = isAsked ? tracked?.connections : undefined;
  const traffic = isCounted ? tracked?.traffic : undefined;
  const finished = report.kind === "service"
    ? serviceWithKernel(report, { kernel, connections, traffic, probe: probed })
    : packetWithKernel(report, {
      kernel,
      connections,
      trace: command.trace ? await traceConnection(report, context) : undefined,
    });
  const table = (shown: typeof finished, paint: Paint) =>
    shown.kind === "service"
      ? renderService(shown, { paint, isVerbose, hasHistory: command.history })
      : renderPacket(shown, { paint, isVerbose });
  await runtime.print(renderReport(finished, { output: command.output, runtime, table }));
  return finished.findings.some(({ severity }) => severity === "error") ? 1 : 0;
}

/** Asks the daemon whose configuration is used; `undefined`: it has no objects yet, or is for another node. */
async function answerOfDaemon(context: ExplainContext): Promise<Answer | undefined> {
  const { command, configuredBy, nodeName, runtime } = context;
  if (configuredBy !== "daemon") return undefined;
  const { question, namespace, from } = command;
  const answer = await askExplanation(context, { question, namespace, from }).catch((error) => {
    if (error instanceof NoDaemonError) return undefined;
    throw error;
  });
  if (answer?.report.node !== nodeName) return undefined;
  printAge(answer.report.objects, runtime);
  return answer;
}

/** Answers from the objects of the API server, the manifests or the state file. */
async function answerHere(context: ExplainContext): Promise<Answer> {
  const { target, from, timeout } = context.command;
  const inspector = target.type === "service" ? new Inspector(target.name) : undefined;
  const inspect = (kind: Kind, raw: unknown) => inspector?.look(kind, raw);
  const known = await readKnown({ ...context, timeout, inspect });
  return await answer(target, {
    known,
    from: from || undefined,
    inspect: async (service) => {
      // Manifests are read again only if the name of the Service was not known before.
      return inspector && known.origin.from === "manifests"
        ? inspector.in(service.namespace)
        : await readInspected(service, { ...context, client: undefined });
    },
    locate: (pod) => readPods(pod, { ...context, client: undefined }),
    historyOf: () => [],
    statusOf: () => undefined,
  });
}

async function probeService(
  { ports }: ServiceReport,
  { runtime: { clock }, signal }: ExplainContext,
): Promise<ProbeReport> {
  const { targets, ...rest } = probesOf(ports);
  return { connections: await probe(targets, { ask, clock, signal, atOnce: 16 }), ...rest };
}
