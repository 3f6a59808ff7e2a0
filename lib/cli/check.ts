/** `signpost check`: finds problems of this node. It changes nothing, and works without a daemon and an API server. */
import type { Backend } from "../backend/backend.ts";
import { likelyBackend, openBackend } from "../backend/choose.ts";
import { kubeProxyProcesses } from "../backend/take_over.ts";
import type { CommandOf } from "../config/command.ts";
import { readSystem } from "../daemon/reports/node_findings.ts";
import type { ApiFailure, NodeFacts } from "../findings/facts.ts";
import { finding } from "../findings/catalog.ts";
import { messageIfFatal, unlessFatal } from "../model/values/errors.ts";
import { type Paint, renderFindings, renderReport, SEVERITY_COLOURS, textTable } from "./output.ts";
import { CLUSTER_FLAGS } from "../config/commands.ts";
import type { QueryContext } from "./context.ts";
import { askDaemonOf, findingsOf, readState } from "./objects.ts";
import type { State } from "../policy/state.ts";
import { countWithoutEndpoints } from "../model/kernel/desired.ts";
import type { Mode } from "../model/configuration.ts";
import type { Finding, Status } from "../model/status.ts";
import { count } from "../model/values/text.ts";
import { describeObjectProblems, formatDuration, programOf } from "../observe/human.ts";
import { findApiServer } from "../daemon/objects/source.ts";
import { type Kind, KINDS } from "../model/cluster/objects.ts";
import type { ApiClient } from "../source/api/api_client.ts";
import { WatchError } from "../source/api/failure.ts";
import { resourceOf } from "../source/objects/tables.ts";

/** Milliseconds to wait for the objects. */
const OBJECTS_LIMIT = 1_000;

/** Checks the node and prints the findings. @returns 2 with an error, 1 with a warning, else 0 */
export async function check(
  { output }: CommandOf<"check">,
  context: QueryContext,
): Promise<number> {
  const report = await findNodeProblems(context);
  const { runtime } = context;
  await runtime.print(renderReport(report, { output, runtime, table: checkTable }));
  const severities = new Set(report.findings.map(({ severity }) => severity));
  return severities.has("error") ? 2 : severities.has("warning") ? 1 : 0;
}

/** Checks the node, with the findings of its daemon. */
export async function findNodeProblems(context: QueryContext): Promise<CheckReport> {
  const { configuration, nodeName, runtime } = context;
  // A node without a configuration can be checked, too.
  const isConfigured = hasApiServer(context);
  const [opened, apiServer, daemon, system] = await Promise.all([
    openBackend(context).catch((error) => {
      const what = messageIfFatal(error);
      return { findings: [finding("rules-cannot-be-written", { what, where: "mode" })] };
    }),
    isConfigured ? askApiServer(context) : undefined,
    askDaemonOf(context, { isFresh: true }),
    readSystem(context),
  ]);
  const backend = "backend" in opened ? opened.backend : likelyBackend(context);
  const isReachable = apiServer?.failures.every(({ isOptional, isSlow }) => isOptional || isSlow) ??
    true;
  const [rival, ruleset, state] = await Promise.all([
    findRival(backend, context),
    backend.rules.readRuleset().catch(() => undefined),
    // A daemon has the objects, and its own findings.
    daemon || !isReachable || !isConfigured && configuration.signpost.manifests.length === 0
      ? undefined
      : readState({ ...context, backend, timeout: OBJECTS_LIMIT }).catch(unlessFatal),
  ]);
  const facts: NodeFacts = {
    nodeName,
    configuration,
    traits: backend.traits,
    interfaceAddresses: runtime.addresses(),
    apiServerAddresses: state?.apiServerAddresses,
    // A daemon sets `route_localnet` at its start, and checks it itself.
    system: system.routeLocalnet === "0" ? { ...system, routeLocalnet: undefined } : system,
    apiServer: apiServer && {
      ...apiServer,
      failures: apiServer.failures.map((each) => slowIfWatched(each, daemon)),
    },
    rival,
    ruleset,
    objects: state && { node: state.cache.node, desired: state.desired },
    found: opened.findings,
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
    objectProblems: objectProblemsOf(daemon, state),
  };
}

/** Counts problems of objects, by the daemon's status or by the objects that were read. */
function objectProblemsOf(daemon: Status | undefined, state: State | undefined): string {
  if (daemon) return describeObjectProblems(daemon);
  if (!state) return "";
  const servicesWithoutEndpoints = countWithoutEndpoints(state.desired);
  return describeObjectProblems({ ...state, servicesWithoutEndpoints });
}

/** Finds a running kube-proxy. Rules without a process do not count: signpost takes them over. */
async function findRival(
  backend: Backend,
  { runtime }: Pick<QueryContext, "runtime">,
): Promise<NodeFacts["rival"]> {
  const daemon = await runtime.lock.holder();
  const processes = await kubeProxyProcesses(runtime, daemon?.pid);
  if (processes.length === 0) return undefined;
  return { rules: await backend.foreignRules.findProxy(), processes };
}

/** The version of the report. It grows when a field is removed or changes its meaning. */
const CHECK_VERSION = 1;

/** The answer, as data: what `-o json` prints. `docs/output.md` describes it. */
export interface CheckReport {
  readonly checkVersion: typeof CHECK_VERSION;
  readonly node: string;
  readonly mode: Mode;
  readonly kernel: string;
  readonly program: string;
  readonly apiServer: string;
  readonly daemon: boolean;
  readonly objects: boolean;
  readonly findings: readonly Finding[];
  /** The problems of objects, such as `1 Service refused, 2 conflicts`; `""`: none. */
  readonly objectProblems: string;
}

export function checkTable(report: CheckReport, paint: Paint): string {
  const { node, mode, kernel, program, apiServer, daemon, objects, findings, objectProblems } =
    report;
  const facts = [
    ["mode", `${mode} (${programOf({ nft: program }) || "not usable"}), kernel ${kernel}`],
    [
      "API server",
      apiServer ||
      (objects ? "not asked, objects come from manifests" : "not asked, no --kubeconfig is set"),
    ],
    ["daemon", daemon ? "runs, its findings are included" : "does not answer for this node"],
    ["objects", objects ? "checked" : "not read, so addresses and Services are not checked"],
  ];
  const counted = (["error", "warning"] as const).flatMap((severity) => {
    const { length } = findings.filter((each) => each.severity === severity);
    return length === 0 ? [] : [paint(count(length, severity), SEVERITY_COLOURS[severity])];
  });
  const ofNode = counted.length === 0 ? paint("no node problems", "green") : counted.join(", ");
  const summary = objectProblems === "" ? ofNode : `${ofNode}; ${objectProblems}: signpost status`;
  return `signpost check on ${node}: ${summary}\n${textTable(facts, { indent: "  " })}` +
    (findings.length === 0 ? "" : `\n${renderFindings(findings, paint)}`);
}

/** Milliseconds for an answer. */
const LIMIT = 5_000;
/** Milliseconds after which an answer is slow. */
const SLOW = 3_000;

/** Returns false if the objects come from manifests, or if no setting names a cluster yet. */
function hasApiServer({ configuration, configuredBy, given, runtime }: QueryContext): boolean {
  if (configuration.signpost.manifests.length > 0) return false;
  return configuredBy !== undefined || CLUSTER_FLAGS.some((flag) => given?.includes(`--${flag}`)) ||
    runtime.environment("KUBERNETES_SERVICE_HOST") !== undefined;
}

async function askApiServer(context: QueryContext): Promise<NodeFacts["apiServer"]> {
  try {
    const { client, url, warnings, close } = await findApiServer(context);
    const asking = KINDS.map((kind) => ask(client, { kind, ...context }));
    const failures = (await Promise.all(asking).finally(close)).flat();
    return { where: url.origin, warnings, failures };
  } catch (error) {
    const failure = { kind: "", message: messageIfFatal(error), isRefusal: false };
    return { where: "kubeconfig", warnings: [], failures: [failure] };
  }
}

/** Counts a request without an answer as slow if the daemon's watch of that kind is open. */
function slowIfWatched(failure: ApiFailure, daemon: Status | undefined): ApiFailure {
  const { kind, hasTimedOut } = failure;
  const isOpen = daemon?.watches.some((each) =>
    each.kind === kind && each.state === "watching" && each.failingSince === ""
  );
  if (!hasTimedOut || !isOpen) return failure;
  const message = `the API server did not answer within ${LIMIT / 1000} s, ` +
    "but the daemon's watches are open";
  return { ...failure, message, isSlow: true };
}

async function ask(
  client: ApiClient,
  { kind, nodeName, signal, runtime: { clock } }:
    & Pick<QueryContext, "nodeName" | "signal" | "runtime">
    & { readonly kind: Kind },
): Promise<ApiFailure[]> {
  const { path, selectors, optional } = resourceOf(kind, nodeName);
  const limits = { signal, silence: LIMIT };
  const start = clock.monotonic();
  try {
    // `resourceVersion=0`: from the server's memory, not from etcd.
    const query = { ...selectors, limit: "1", resourceVersion: "0" };
    await client.json(path, { query, ...limits });
    const took = clock.monotonic() - start;
    (await client.open(path, { query: { ...selectors, watch: "true" }, ...limits })).close();
    if (took <= SLOW) return [];
    const message = `the API server answered after ${formatDuration(took / 1000)}`;
    return [{ kind, message, isRefusal: false, isSlow: true }];
  } catch (error) {
    if (!(error instanceof WatchError)) throw error;
    const { reason, message } = error;
    if (optional && reason === "not-found") return [];
    return [{
      kind,
      message,
      isRefusal: reason === "forbidden" || reason === "unauthorized",
      isOptional: optional === true && reason === "forbidden",
      hasTimedOut: reason === "stalled" || reason === "late",
    }];
  }
}
