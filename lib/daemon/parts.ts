/** Makes the parts of the daemon. Each function gets finished values, and returns new ones. */
import { familiesBut } from "../backend/backend.ts";
import type { OpenBackend } from "../backend/choose.ts";
import { Connections } from "../backend/connections.ts";
import { ObjectCache } from "../cache/cache.ts";
import type { Configuration } from "../config/configuration.ts";
import type { NodeFacts, RulesetFacts, SystemFacts } from "../findings/facts.ts";
import type { HealthCheckNodePorts } from "../healthcheck/node_ports.ts";
import type { LocalhostListeners } from "../localhost/listeners.ts";
import type { Refusal } from "../model/cluster/objects.ts";
import type { CommandLine } from "../model/configuration.ts";
import type { DriftOptions } from "../model/kernel/dataplane.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { AutoResetEvent } from "../model/values/timing.ts";
import { EventRecorder, type EventReport } from "../observe/events.ts";
import { ProxyHealth } from "../observe/health.ts";
import { Metrics } from "../observe/metrics/metrics.ts";
import type { ServiceManager } from "../observe/systemd.ts";
import { apiServers } from "../policy/node.ts";
import { Desired } from "../policy/state.ts";
import { StateKeeper, type WriteTerms } from "../source/saved/keeper.ts";
import { SyncLoop } from "../sync/sync.ts";
import type { KeptServers } from "../system/http_servers.ts";
import { writeStateFile } from "../system/state_file.ts";
import { OwnPorts } from "./objects/own_ports.ts";
import { postJson, type Source } from "./objects/source.ts";
import { History, ServiceSyncs } from "./reports/history.ts";
import { NodeFindings, readSystem } from "./reports/node_findings.ts";
import { Observation } from "./reports/observation.ts";

export interface DaemonOptions {
  readonly configuration: Configuration;
  readonly commandLine: CommandLine;
  readonly nodeName: string;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly recentLog: readonly string[];
  readonly manager: ServiceManager;
  /** Outlives the daemon: a new configuration keeps the listeners that it needs, too. */
  readonly localhost: LocalhostListeners;
  /** Outlives the daemon, as `localhost`. */
  readonly healthChecks: HealthCheckNodePorts;
  /** Outlives the daemon, as `localhost`: probes and scrapes are answered between two daemons. */
  readonly servers: Pick<KeptServers, "keep">;
  /** Aborts when the process must stop, or its configuration has changed. */
  readonly signal: AbortSignal;
  /** Aborts only when the process must stop. */
  readonly processSignal: AbortSignal;
}

interface Given {
  readonly options: DaemonOptions;
  readonly opened: OpenBackend & { readonly source: Source };
}

type Reports = ReturnType<typeof makeReports>;
type Engine = ReturnType<typeof makeEngine>;
type Checks = ReturnType<typeof makeChecks>;

export interface Parts extends Given, Reports, Engine, Checks {
  /** `undefined` if the daemon does not write a state file. */
  readonly keeper: StateKeeper | undefined;
}

export function makeParts(options: Given["options"], opened: Given["opened"]): Parts {
  const given = { options, opened };
  const reports = makeReports(given);
  const engine = makeEngine(given, reports);
  const checks = makeChecks(given, { ...reports, ...engine });
  const keeper = makeKeeper(given, reports);
  return { ...given, ...reports, ...engine, ...checks, keeper };
}

/** Makes the objects, and the reports of the work on them. */
function makeReports({ options, opened: { backend, missing, source: { api } } }: Given) {
  const { nodeName, runtime: { clock }, logger, signal } = options;
  const cache = new ObjectCache();
  const metrics = new Metrics({ backend: backend.metrics, families: familiesBut(missing) });
  // Only an API server receives Events.
  const events = api && new EventRecorder({
    post: (path, body) => postJson(api, { path, body, signal }),
    clock,
    logger,
    instance: nodeName,
    dropped: () => metrics.droppedEvents.inc({}),
  });
  const report = (event: EventReport) => events?.record(event);
  /** Set if the node findings may have changed. */
  const findingsChanged = new AutoResetEvent(clock);
  const history = new History({ cache, clock });
  const observation = new Observation({
    nodeName,
    clock,
    needsNode: api !== undefined,
    cache,
    metrics,
    report,
    history,
    watchesChanged: () => findingsChanged.set(),
  });
  return { cache, metrics, events, report, findingsChanged, history, observation };
}

/** Makes the parts that turn objects into rules. */
function makeEngine({ options, opened }: Given, { cache, observation }: Reports) {
  const { configuration, nodeName, runtime: { clock }, logger, signal } = options;
  const { backend, missing, refusedFeatures, source: { api } } = opened;
  const { traits } = backend;
  const ownPorts = new OwnPorts({ ...options, locate: api?.locate });
  const desired = new Desired({
    configuration,
    traits,
    nodeName,
    ipFamilies: familiesBut(missing),
    refusedFeatures,
    ...ownPorts.desiredOptions,
  });
  const connections = new Connections({
    node: nodeName,
    counters: configuration.signpost.serviceMetrics
      ? refusedFeatures.get("connection-counters") ?? backend.connections
      : "--service-metrics is off",
    services: () => desired.services,
    clock,
    logger,
  });
  const loop = new SyncLoop({
    cache,
    desired,
    dataplane: backend.dataplane,
    clock,
    logger,
    observer: observation,
    minSyncPeriod: configuration[traits.name].minSyncPeriod,
    share: traits.share,
    fullSyncPeriod: configuration.signpost.fullSyncPeriod,
    signal,
  });
  const driftOptions: DriftOptions = {
    desired,
    onDrift: (drift) => loop.drifted(drift),
    onChange: (reason) => loop.requestFull(reason),
    signal,
  };
  /** Returns all objects whose present state is not used: malformed ones, and Services over a limit. */
  const refusals = (): readonly Refusal[] => [...cache.refused, ...desired.overLimit()];
  const serviceSyncs = new ServiceSyncs({ desired, clock });
  return { ownPorts, desired, connections, loop, driftOptions, refusals, serviceSyncs };
}

/** Makes the health of the proxy and the findings on its node. */
function makeChecks(given: Given, work: Reports & Engine) {
  const { options: { configuration, runtime: { clock }, logger }, opened: { backend, missing } } =
    given;
  const { loop, observation, findingsChanged } = work;
  const health = new ProxyHealth({
    clock,
    timeout: 2 * configuration[backend.traits.name].syncPeriod,
    missing,
    isEligible: () => observation.isEligible,
    sync: () => loop.progress,
    progress: () => backend.dataplane.progress,
  });
  const findings = new NodeFindings({
    gather: gathering(given, work),
    appeared: (finding) => observation.found(finding),
    changed: findingsChanged,
    compareRules: async () => {
      // Rules are compared after the first sync only.
      if (loop.progress.synced === 0 || loop.drift) return;
      await backend.dataplane.lookForDrift?.(work.driftOptions);
    },
    clock,
    logger,
  });
  return { health, findings };
}

/** Returns a function that gathers the facts of the node, and runs programs if `isFull`. */
function gathering(
  { options, opened: { backend, findings: probed, source: { api } } }: Given,
  { cache, desired, loop, ownPorts, observation }: Reports & Engine,
): (isFull: boolean) => Promise<NodeFacts> {
  const { configuration, nodeName, runtime, localhost, healthChecks } = options;
  let system: SystemFacts | undefined;
  let ruleset: RulesetFacts | undefined;
  return async (isFull) => {
    // A repair may end while programs run.
    const { drift } = loop;
    if (isFull) {
      system = await readSystem(options, system);
      await backend.foreignRules.look();
      ruleset = await backend.rules.readRuleset().catch(() => undefined);
    }
    return {
      nodeName,
      configuration,
      traits: backend.traits,
      interfaceAddresses: runtime.addresses(),
      apiServerAddresses: apiServers(ownPorts.desiredOptions),
      system,
      ruleset,
      rival: backend.foreignRules.rival,
      drift,
      apiServer: api &&
        { where: api.url.origin, warnings: api.warnings, failures: observation.watchFailures },
      settingFailures: observation.settingFailures,
      found: [
        ...probed,
        ...observation.serverFailures.values(),
        ...healthChecks.failures,
        ...localhost.failures,
      ],
      excess: cache.excess,
      objects: cache.complete ? { node: cache.node, desired } : undefined,
    };
  };
}

/** Makes the writer of the state file; `undefined` without a file, or if the objects come from manifests. */
function makeKeeper(
  { options: { configuration, nodeName, runtime, logger, signal }, opened: { source } }: Given,
  { cache }: Reports,
): StateKeeper | undefined {
  const path = configuration.signpost.stateFile;
  if (path === "" || !source.api) return undefined;
  const write = async (terms: WriteTerms) => {
    await writeStateFile(cache, { ...terms, path, nodeName });
    runtime.releaseMemory(signal);
  };
  return new StateKeeper({ write, clock: runtime.clock, logger });
}
