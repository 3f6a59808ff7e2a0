/**
 * `signpost check`: looks for what would keep signpost from working on this node. Changes nothing, and
 * needs neither a daemon nor an API server.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import { likelyBackend, type OpenBackend, openBackend } from "../../backend/choose.ts";
import { kubeProxyProcesses } from "../../backend/take_over.ts";
import type { CommandOf } from "../../config/command.ts";
import { readRuleset, readSystem } from "../../daemon/reports/node_findings.ts";
import { readState } from "../../daemon/start/read_state.ts";
import type { NodeFacts } from "../../findings/facts.ts";
import { finding } from "../../findings/finding.ts";
import { FatalError } from "../../model/values/errors.ts";
import type { State } from "../../policy/state.ts";
import { renderReport } from "../output.ts";
import type { QueryContext } from "../query.ts";
import { askApiServer } from "./api_server.ts";
import { askDaemonOf, findingsOf, objectFacts } from "./findings.ts";
import { CHECK_VERSION, type CheckReport } from "./report.ts";
import { checkTable } from "./table.ts";

/** Milliseconds for the objects. */
const OBJECTS_LIMIT = 1_000;

/**
 * Looks, and prints what it found.
 *
 * @returns 2 with an error, 1 with a warning, else 0
 */
export async function check(
  { output }: CommandOf<"check">,
  context: QueryContext,
): Promise<number> {
  const report = await look(context);
  const { runtime } = context;
  await runtime.print(renderReport(report, { output, runtime, table: checkTable }));
  const severities = new Set(report.findings.map(({ severity }) => severity));
  return severities.has("error") ? 2 : severities.has("warning") ? 1 : 0;
}

/** Looks at the node. */
export async function look(context: QueryContext): Promise<CheckReport> {
  const { configuration, nodeName, runtime } = context;
  const [opened, apiServer, daemon, system] = await Promise.all([
    openBackend(context).catch(cannotWrite),
    askApiServer(context),
    askDaemonOf(nodeName, configuration.signpost),
    readSystem(context),
  ]);
  const backend = "backend" in opened ? opened.backend : likelyBackend(context);
  const isReachable = apiServer === undefined || apiServer.failures.length === 0;
  const [rival, ruleset, state] = await Promise.all([
    findRival(backend, context),
    readRuleset(backend),
    // The daemon has them, and its findings.
    daemon || !isReachable ? undefined : readObjects(backend, context),
  ]);
  const facts: NodeFacts = {
    nodeName,
    configuration,
    traits: backend.traits,
    interfaceAddresses: runtime.addresses(),
    apiServerAddresses: state?.apiServerAddresses,
    // A daemon switches it on at its start, and looks itself.
    system: system.routeLocalnet === "0" ? { ...system, routeLocalnet: undefined } : system,
    apiServer,
    rival,
    ruleset,
    objects: state && objectFacts(state),
    probed: opened.findings,
  };
  return {
    checkVersion: CHECK_VERSION,
    node: nodeName,
    mode: backend.traits.name,
    kernel: runtime.osRelease(),
    program: "version" in opened ? opened.version : "",
    apiServer: apiServer?.where ?? "",
    daemon: daemon !== undefined,
    objects: daemon !== undefined || state !== undefined,
    findings: findingsOf(facts, daemon),
  };
}

/** Returns the facts that are left if no rules can be written. */
function cannotWrite(error: unknown): Pick<OpenBackend, "findings"> {
  if (!(error instanceof FatalError)) throw error;
  return {
    findings: [finding("rules-cannot-be-written", { what: error.message, where: "mode" })],
  };
}

/** Rules alone are what signpost takes over; with a process, they come back. */
async function findRival(
  backend: Backend,
  { runtime }: Pick<QueryContext, "runtime">,
): Promise<NodeFacts["rival"]> {
  const processes = await kubeProxyProcesses(runtime);
  return processes.length === 0
    ? undefined
    : { rules: await backend.foreignRules.findProxy(), processes };
}

async function readObjects(backend: Backend, context: QueryContext): Promise<State | undefined> {
  try {
    return await readState({ ...context, backend, timeout: OBJECTS_LIMIT, isHere: true });
  } catch (error) {
    if (error instanceof FatalError) return undefined;
    throw error;
  }
}
