/** `signpost test`: connects to the Services from this node, and lists the failing ones. */
import type { CommandOf, ServiceTarget } from "../config/command.ts";
import { sortFindings } from "../explain/finding.ts";
import { suggestService } from "../explain/causes.ts";
import { serviceNamed } from "../explain/lookup.ts";
import type { Known } from "../explain/packet.ts";
import { probe, probeFindings, probesOf } from "../explain/probe.ts";
import type { ExplainFinding, ProbedConnection, ProbeReport } from "../explain/report.ts";
import { explainService } from "../explain/service_report.ts";
import { objectKey, serviceOf, splitKey } from "../model/cluster/names.ts";
import type { ObjectsOrigin } from "../model/status.ts";
import { FatalError } from "../model/values/errors.ts";
import { count } from "../model/values/text.ts";
import { ask } from "../system/prober.ts";
import type { QueryContext } from "./context.ts";
import { findingsText, notProbedText, probeTable } from "./explain/render.ts";
import { readKnown } from "./objects.ts";
import { type Paint, renderReport } from "./output.ts";

/** The number of connections at one time. */
const AT_ONCE = 64;

interface TestReport extends Pick<ProbeReport, "notProbed" | "omitted"> {
  /** The version grows when a field is removed or changes its meaning. */
  readonly testVersion: 1;
  readonly node: string;
  /** The number of Services that were tested. */
  readonly services: number;
  readonly failing: readonly {
    readonly service: string;
    readonly findings: readonly ExplainFinding[];
    /** The connections that should be open and are not. */
    readonly connections: readonly ProbedConnection[];
  }[];
  /** Services without endpoints in an EndpointSlice. */
  readonly withoutEndpoints: readonly string[];
  readonly tried: number;
  readonly open: number;
  readonly interrupted: boolean;
  readonly objects: ObjectsOrigin;
}

/** Tests the Services. @returns 1: one does not answer; 2: interrupted before @throws {FatalError} without objects */
export async function test(command: CommandOf<"test">, context: QueryContext): Promise<number> {
  const { output, timeout } = command;
  const { runtime, signal, nodeName: node } = context;
  const { clock } = runtime;
  const known = await readKnown({ ...context, timeout });
  const tested = targetsOf(command, known).map((target) => {
    const report = explainService({ ...known, target, inspected: undefined, status: undefined });
    const isEmpty = report.ports.every(({ endpoints }) => endpoints.length === 0);
    return { ...report, isEmpty, ...probesOf(report.ports) };
  });
  // Connections that the rules refuse do not show if the Service works.
  const targets = tested.flatMap(({ targets }) => targets).filter(({ isExpected }) => isExpected);
  const isShown = output === "table" && runtime.isTerminal();
  let asked = 0;
  const connections = await probe(targets, {
    ask: (target, options) => {
      const text = `\r${++asked} of ${count(targets.length, "connection")}`;
      if (isShown && asked % AT_ONCE === 0) void runtime.print(text);
      return ask(target, options);
    },
    clock,
    signal,
    atOnce: AT_ONCE,
  });
  if (isShown) await runtime.print("\r\x1b[K");
  const byService = Map.groupBy(connections, ({ servicePort }) => serviceOf(servicePort));
  const failing = tested.map(({ service, findings, isEmpty }) => {
    const own = byService.get(service) ?? [];
    const errors = findings.filter(({ severity }) => severity === "error");
    return {
      service,
      findings: sortFindings([
        ...isEmpty && command.services.length === 0 ? [] : errors,
        ...probeFindings(own),
      ]),
      connections: own.filter(({ result }) => result !== "open"),
    };
  }).filter(({ findings }) => findings.length > 0);
  const report: TestReport = {
    testVersion: 1,
    node,
    services: tested.length,
    failing,
    withoutEndpoints: tested.filter(({ isEmpty }) => isEmpty).map(({ service }) => service),
    tried: connections.length,
    open: connections.filter(({ result }) => result === "open").length,
    omitted: tested.reduce((sum, each) => sum + each.omitted, targets.length - connections.length),
    notProbed: [...new Set(tested.flatMap(({ notProbed }) => notProbed))],
    interrupted: signal.aborted,
    objects: known.origin,
  };
  await runtime.print(renderReport(report, { output, runtime, table: testTable }));
  return failing.length > 0 ? 1 : report.interrupted ? 2 : 0;
}

/** Returns the Services to test. @throws {FatalError} if one does not exist */
function targetsOf(
  { services, namespace }: CommandOf<"test">,
  known: Known,
): readonly ServiceTarget[] {
  const keys = [...known.cache.services.keys()];
  if (services.length === 0) {
    return keys.filter((key) => namespace === "" || splitKey(key).namespace === namespace).sort()
      .map((key) => ({ type: "service", ...splitKey(key), port: undefined }));
  }
  return services.map((each) => {
    const target = serviceNamed(each, known);
    const key = objectKey(target);
    if (known.cache.services.has(key)) return target;
    throw new FatalError(`no Service ${key} has a virtual IP.${suggestService(target, keys)}`);
  });
}

function testTable(report: TestReport, paint: Paint): string {
  const { node, services, failing, withoutEndpoints, tried, open } = report;
  const listed = failing.map(({ service, findings, connections }) =>
    `${paint(service, "bold")}\n${findingsText(findings, paint)}${probeTable(connections, paint)}\n`
  );
  const verdict = failing.length === 0
    ? paint("none fails", "green")
    : paint(`${failing.length} ${failing.length === 1 ? "fails" : "fail"}`, "red");
  const empty = withoutEndpoints.length;
  return `${listed.join("")}${count(services, "Service")} tested from node ${node}: ${verdict}; ` +
    `${open} of ${count(tried, "connection")} open\n` +
    (empty > 0 ? `  ${count(empty, "Service")} without endpoints\n` : "") +
    notProbedText(report) + (report.interrupted ? "  interrupted\n" : "");
}
