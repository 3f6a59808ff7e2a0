/** `signpost test`: connects to the Services from this node, and lists those that do not answer. */
import type { AskedService, CommandOf } from "../config/command.ts";
import { sortFindings } from "../explain/finding.ts";
import { suggestService } from "../explain/causes.ts";
import { serviceNamed } from "../explain/lookup.ts";
import type { Known } from "../explain/packet.ts";
import { probe, probeFindings, probesOf } from "../explain/probe.ts";
import type { Finding, ProbedConnection } from "../explain/report.ts";
import { explainService } from "../explain/service_report.ts";
import { objectKey, splitKey } from "../model/cluster/names.ts";
import type { Protocol } from "../model/cluster/objects.ts";
import type { ObjectsOrigin } from "../model/status.ts";
import { FatalError } from "../model/values/errors.ts";
import { count } from "../model/values/text.ts";
import { ask } from "../system/prober.ts";
import type { QueryContext } from "./context.ts";
import { findingsText, probeTable } from "./explain/render.ts";
import { readKnown } from "./objects.ts";
import { type Paint, renderReport } from "./output.ts";

/** Version of the report; it grows when a field goes or changes its meaning. */
const TEST_VERSION = 1;

/** The number of connections that are tried at one time. */
const AT_ONCE = 64;

/** Milliseconds between two lines of progress. */
const PROGRESS = 200;

interface TestReport {
  readonly testVersion: typeof TEST_VERSION;
  readonly node: string;
  /** The Services that were tested. */
  readonly services: number;
  readonly failing: readonly {
    readonly service: string;
    readonly findings: readonly Finding[];
    /** The connections that were not as the rules and objects say. */
    readonly connections: readonly (ProbedConnection & { readonly service: string })[];
  }[];
  /** Services without an EndpointSlice that has endpoints. */
  readonly withoutEndpoints: readonly string[];
  readonly tried: number;
  readonly open: number;
  /** Connections that were not tried: more than the limit of a Service, or after an interruption. */
  readonly omitted: number;
  readonly notProbed: readonly Protocol[];
  readonly interrupted: boolean;
  readonly objects: ObjectsOrigin;
}

/** Tests the Services. @returns 1 if one does not answer, 2 if that is not known @throws {FatalError} without objects */
export async function test(command: CommandOf<"test">, context: QueryContext): Promise<number> {
  const { output } = command;
  const { runtime } = context;
  const known = await readKnown({ ...context, timeout: command.timeout });
  const report = await testServices(command, { known, context });
  await runtime.print(renderReport(report, { output, runtime, table: testTable }));
  return report.failing.length > 0 ? 1 : report.interrupted ? 2 : 0;
}

/** A Service, with the answers that its objects give. */
interface Tested {
  readonly service: string;
  readonly findings: readonly Finding[];
  readonly isEmpty: boolean;
  readonly probes: ReturnType<typeof probesOf>;
}

async function testServices(
  { services: named, namespace, output }: CommandOf<"test">,
  { known, context }: { readonly known: Known; readonly context: QueryContext },
): Promise<TestReport> {
  const { runtime, signal, nodeName } = context;
  const { clock } = runtime;
  const tested = namesOf(named, { namespace, known }).map((name) => lookAt(name, known));
  const targets = tested.flatMap(({ service, probes }) =>
    // A connection that the rules refuse says nothing about the Service.
    probes.targets.filter(({ isExpected }) => isExpected).map((each) => ({ ...each, service }))
  );
  const isShown = output === "table" && runtime.isTerminal();
  let shownAt = clock.monotonic();
  const progress = (tried: number) => {
    const now = clock.monotonic();
    if (!isShown || now - shownAt < PROGRESS) return;
    shownAt = now;
    void runtime.print(`\r${tried} of ${count(targets.length, "connection")}`);
  };
  const connections = await probe(targets, { ask, clock, signal, atOnce: AT_ONCE, progress });
  if (isShown) await runtime.print("\r\x1b[K");
  const byService = Map.groupBy(connections, ({ service }) => service);
  const failing = tested.flatMap(({ service, findings, isEmpty, probes }) => {
    const connections = byService.get(service) ?? [];
    const found = sortFindings([
      ...isEmpty && named.length === 0 ? [] : findings,
      ...probeFindings({ ...probes, connections }),
    ]);
    const silent = connections.filter(({ result }) => result !== "open");
    return found.length === 0 ? [] : [{ service, findings: found, connections: silent }];
  });
  return {
    testVersion: TEST_VERSION,
    node: nodeName,
    services: tested.length,
    failing,
    withoutEndpoints: tested.filter(({ isEmpty }) => isEmpty).map(({ service }) => service),
    tried: connections.length,
    open: connections.filter(({ result }) => result === "open").length,
    omitted: targets.length - connections.length +
      tested.reduce((sum, { probes }) => sum + probes.omitted, 0),
    notProbed: [...new Set(tested.flatMap(({ probes }) => probes.notProbed))],
    interrupted: signal.aborted,
    objects: known.origin,
  };
}

/** Returns the Services that are asked about. @throws {FatalError} if one does not exist */
function namesOf(
  named: readonly AskedService[],
  { namespace, known }: { readonly namespace: string; readonly known: Known },
): { readonly service: string; readonly port: string | undefined }[] {
  if (named.length === 0) {
    return [...known.cache.services.keys()]
      .filter((key) => namespace === "" || splitKey(key).namespace === namespace).sort()
      .map((service) => ({ service, port: undefined }));
  }
  return named.map((each) => {
    const target = serviceNamed(each, known);
    const service = objectKey(target);
    if (known.cache.services.has(service)) return { service, port: each.port };
    const hint = suggestService(target, known.cache.services.keys());
    throw new FatalError(`no Service ${service} has a virtual IP.${hint}`);
  });
}

function lookAt(
  { service, port }: { readonly service: string; readonly port: string | undefined },
  known: Known,
): Tested {
  const target = { type: "service", ...splitKey(service), port } as const;
  const unasked = { inspected: undefined, status: undefined, history: [] };
  const report = explainService({ ...known, ...unasked, target });
  return {
    service,
    findings: report.findings.filter(({ severity }) => severity === "error"),
    isEmpty: report.ports.every(({ endpoints }) => endpoints.length === 0),
    probes: probesOf(report.ports),
  };
}

function testTable(report: TestReport, paint: Paint): string {
  const { node, services, failing, withoutEndpoints, tried, open, omitted, notProbed } = report;
  const listed = failing.map(({ service, findings, connections }) =>
    `${paint(service, "bold")}\n${findingsText(findings, paint)}${probeTable(connections, paint)}\n`
  );
  const verdict = failing.length === 0
    ? paint("none fails", "green")
    : paint(`${failing.length} ${failing.length === 1 ? "fails" : "fail"}`, "red");
  const notes = [
    ...withoutEndpoints.length > 0
      ? [`${count(withoutEndpoints.length, "Service")} without endpoints`]
      : [],
    ...notProbed.map((protocol) => `${protocol} was not tested`),
    ...omitted > 0 ? [`${count(omitted, "connection")} not tried`] : [],
    ...report.interrupted ? ["interrupted"] : [],
  ];
  return `${listed.join("")}${count(services, "Service")} tested from node ${node}: ${verdict}; ` +
    `${open} of ${count(tried, "connection")} open\n` + notes.map((note) => `  ${note}\n`).join("");
}
