/** Wires the parts of the daemon, and runs them. */
import { ObjectCache } from "../cache/cache.ts";
import { Desired } from "../policy/state.ts";
import type { NodeFacts, RulesetFacts, SettingFailure, SystemFacts } from "../findings/facts.ts";
import { ApplyError, type Script } from "../model/kernel/dataplane.ts";
import type { Status } from "../model/status.ts";
import { EventRecorder, type EventReport, startingEvent } from "../observe/events.ts";
import { ProxyHealth } from "../observe/health.ts";
import { HealthCheckNodePorts } from "../healthcheck/node_ports.ts";
import type { HttpListen } from "../model/ports/http.ts";
import { LocalhostNodePorts } from "../localhost/node_ports.ts";
import { Metrics } from "../observe/metrics/metrics.ts";
import { httpListen } from "../system/http_servers.ts";
import { SyncLoop } from "../sync/sync.ts";
import type { SyncOutcome } from "../sync/reports.ts";
import { familiesBut } from "../backend/backend.ts";
import { ConntrackCleaner } from "../conntrack/conntrack.ts";
import { applyKernelSettings } from "../conntrack/kernel_settings.ts";
import { Connections } from "../backend/connections.ts";
import { knownGates } from "../config/checks.ts";
import { COMMIT } from "../model/commit.ts";
import { processUsage } from "../system/runtime.ts";
import { NodeFindings, readRuleset, readSystem } from "./reports/node_findings.ts";
import { Observation } from "./reports/observation.ts";
import type { DaemonOptions, Opened } from "./start/options.ts";
import { openStateFile } from "./objects/saved_state.ts";
import type { StateKeeper } from "../source/saved/keeper.ts";
import { objectsOf } from "../source/saved/format.ts";
import { stateText } from "../system/state_file.ts";
import { Turns } from "../model/ports/in_turns.ts";
import { refusals, ServiceStatuses } from "./reports/service_status.ts";
import { OwnPorts } from "./objects/own_ports.ts";
import { serveAll } from "./reports/servers.ts";
import { announceReady, waitingFor } from "./reports/service_manager.ts";
import { serveSocket } from "../system/socket.ts";
import { heldBack, statusReport } from "./reports/status_report.ts";
import { postJson } from "./objects/source.ts";
import { VERSION } from "../model/version.ts";

/** Milliseconds without progress after which a sync is stuck, and the watchdog is no longer fed. */
const STUCK = 120_000;

/** Milliseconds for the last Events after another part has failed. */
const LAST_EVENTS = 1_000;

export class Daemon {
  readonly #options: DaemonOptions;
  readonly #opened: Opened;
  readonly #cache = new ObjectCache();
  readonly #desired: Desired;
  readonly #loop: SyncLoop;
  readonly #metrics: Metrics;
  readonly #connections: Connections;
  readonly #health: ProxyHealth;
  /** `undefined`: without an API server there is no receiver of Events. */
  readonly #events: EventRecorder | undefined;
  readonly #listen: HttpListen;
  readonly #healthChecks: HealthCheckNodePorts;
  readonly #observation: Observation;
  readonly #firstSync = Promise.withResolvers<void>();
  readonly #findings: NodeFindings;
  readonly #services: ServiceStatuses;
  /** When the objects of the state file were written, milliseconds since the epoch. */
  #restored = 0;
  #system: SystemFacts | undefined;
  #ruleset: RulesetFacts | undefined;
  #settingFailures: readonly SettingFailure[] = [];
  readonly #started: number;
  readonly #ownPorts: OwnPorts;
  #keeper: StateKeeper | undefined;
  #takingOver: Promise<void> | undefined;
  /** The kernel has the rules. */
  #isReady = false;
  /** The Event of the start was sent. */
  #isAnnounced = false;

  constructor(options: DaemonOptions, opened: Opened) {
    this.#options = options;
    this.#opened = opened;
    const { configuration, nodeName, runtime, logger } = options;
    const { clock } = runtime;
    const { backend, missing, source: { api } } = opened;
    const { traits } = backend;
    const settings = configuration[traits.name];
    this.#started = clock.now();
    const counters = configuration.signpost.serviceMetrics
      ? opened.refusedFeatures.get("connection-counters") ?? backend.connections
      : "--service-metrics is off";
    this.#connections = new Connections({
      node: nodeName,
      counters,
      services: () => this.#desired.services,
      clock,
      logger,
    });
    this.#metrics = new Metrics({
      backend: backend.metrics,
      localhost: traits.localhostNodePorts === "listeners" ? options.localhost : undefined,
      families: familiesBut(missing),
      observed: () => this.#observation,
      sync: () => this.#loop.progress,
      desired: () => this.#desired,
      version: VERSION,
      commit: COMMIT,
      snapshotAge: () => this.#keeper?.age(),
      isStale: () => this.#loop.stale,
      findings: () => this.#findings.list,
      refused: () => refusals({ cache: this.#cache, desired: this.#desired }),
      connections: this.#connections.isOn ? () => this.#connections.batches("scrape") : undefined,
      process: processUsage(),
      featureGates: knownGates(configuration),
    });
    opened.programs.reportTo((program, failure) =>
      this.#metrics.programFailures.inc({ program, reason: failure })
    );
    this.#health = new ProxyHealth({
      clock,
      timeout: 2 * settings.syncPeriod,
      missing,
      sync: () => this.#loop.progress,
      progress: () => opened.backend.progress,
    });
    this.#ownPorts = new OwnPorts({ ...options, locate: api?.locate, isHere: true });
    this.#desired = new Desired({
      configuration,
      traits,
      nodeName,
      ipFamilies: familiesBut(missing),
      refusedFeatures: opened.refusedFeatures,
      ...this.#ownPorts.around,
    });
    this.#events = api && new EventRecorder({
      post: (path, body) => postJson(api, { path, body, signal: options.signal }),
      clock,
      logger,
      instance: nodeName,
      dropped: () => this.#metrics.droppedEvents.inc({}),
    });
    this.#listen = httpListen({ clock, logger });
    this.#healthChecks = new HealthCheckNodePorts({
      ...options,
      where: () => ({ node: this.#desired.node, ownAddresses: runtime.addresses() }),
      listen: this.#listen,
      isHealthy: () => this.#health.isHealthy(),
      clock,
      changed: () => this.#findings.changed(),
    });
    this.#services = new ServiceStatuses({
      cache: this.#cache,
      desired: this.#desired,
      clock,
      isWriting: (service) => this.#loop.isWriting(service),
    });
    this.#observation = new Observation({
      cache: this.#cache,
      nodeName,
      metrics: this.#metrics,
      health: this.#health,
      clock,
      standInNode: configuration.signpost.manifests.length > 0 ? { deleting: false } : undefined,
      report: (event) => this.#report(event),
    });
    this.#findings = new NodeFindings({
      gather: async (isFull) => {
        if (isFull) {
          this.#system = await readSystem(options, this.#system);
          this.#ruleset = await readRuleset(backend);
        }
        return this.#facts();
      },
      appeared: (finding) => this.#observation.found(finding),
      clock,
      logger,
    });
    const conntrack = new ConntrackCleaner({
      ...options,
      state: this.#desired,
      metrics: this.#metrics,
    });
    const localhost = new LocalhostNodePorts(this.#desired);
    this.#loop = new SyncLoop({
      cache: this.#cache,
      desired: this.#desired,
      backend,
      clock,
      logger,
      observer: this.#observation,
      minSyncPeriod: settings.minSyncPeriod,
      share: traits.share,
      fullSyncPeriod: configuration.signpost.fullSyncPeriod,
      afterSync: [
        (outcome) => this.#follow(outcome),
        (outcome, turns) => turns.run(conntrack.following(outcome)),
        async (outcome, turns) => {
          await turns.run(localhost.following(outcome));
          // Beside the next sync: there may be thousands of listeners to open.
          void options.localhost.sync(localhost.wanted, logger).then(() => {
            if (options.localhost.failures.length > 0) this.#findings.changed();
          });
        },
      ],
      signal: options.signal,
    });
  }

  async run(): Promise<void> {
    const { runtime, logger, manager, signal } = this.#options;
    logger.info("started", {
      version: VERSION,
      mode: this.#opened.backend.traits.name,
      node: this.#options.nodeName,
    });
    const firstSync = this.#firstSync.promise;
    const answering = this.#answer(signal);
    const begun = Promise.all([this.#restore(), this.#ownPorts.begin(signal)]);
    // The loop comes first: it takes the objects of the state file before an event does.
    const writing = begun.then(() => this.#loop.run());
    const delivering = begun.then(() =>
      this.#opened.source.run({
        sink: this.#loop.handle,
        observer: this.#observation,
        requests: this.#metrics,
      })
    );
    const ended = new AbortController();
    const serving = serveAll({
      ...this.#options,
      clock: runtime.clock,
      report: (event) => this.#report(event),
      traits: this.#opened.backend.traits,
      listen: this.#listen,
      health: this.#health,
      metrics: this.#metrics,
      findings: () => this.#findings.list,
      status: () => this.#status(),
      page: async () => ({
        connections: await this.#connections.list("live"),
        status: this.#status(),
        services: this.#desired.services,
        now: runtime.clock.now(),
      }),
      signal: ended.signal,
    });
    try {
      await untilAborted(signal, [
        writing,
        delivering,
        serving,
        answering,
        announceReady({
          ...this.#options,
          clock: runtime.clock,
          firstSync,
          waitingFor: () =>
            waitingFor({
              isStale: this.#loop.stale,
              missing: this.#cache.missing,
              progress: this.#opened.backend.progress,
            }),
        }),
        this.#ownPorts.follow(() => this.#loop.nodeChanged(), signal),
        manager.feedWatchdog(() => this.#loop.busy < STUCK, ended.signal),
        firstSync.then(() => this.#watchDrift()),
        firstSync.then(() => this.#takingOver = this.#takeOver()),
        firstSync.then(async () => {
          this.#settingFailures = await applyKernelSettings(this.#options);
          this.#findings.changed();
        }),
        firstSync.then(() => this.#connections.begin()),
        this.#findings.follow(firstSync, signal),
      ]);
    } finally {
      await Promise.all([
        this.#keeper?.stop(),
        // An Event may say why the daemon ends.
        signal.aborted ? undefined : this.#lastEvents(),
        // The socket is removed at the abort only, so it is not waited for after a failure.
        signal.aborted ? answering : undefined,
        // Two daemons must not write at the same time. After a failure, the write goes on until the process ends.
        signal.aborted ? writing.catch(() => {}) : undefined,
        signal.aborted ? this.#takingOver?.catch(() => {}) : undefined,
      ]);
      if (signal.aborted && this.#isReady) await this.#stepBehind();
      // Load balancers are answered until the next daemon can do so.
      ended.abort();
      await Promise.allSettled([serving, this.#healthChecks.close()]);
    }
  }

  /** Answers at the local socket, if there is one, until the signal aborts. */
  #answer(signal: AbortSignal): Promise<void> {
    const { configuration, commandLine, runtime, logger } = this.#options;
    const path = configuration.signpost.socket;
    if (path === "") return Promise.resolve();
    return serveSocket({
      path,
      status: (service) => ({
        ...this.#status(),
        ...service !== undefined && { service: this.#services.of(service) },
      }),
      refresh: () => this.#findings.refresh(),
      objects: (service) => this.#objects(service),
      services: (name) =>
        [...this.#cache.services.keys()].filter((key) => key.endsWith(`/${name}`)).sort(),
      connections: (most) => this.#connections.report("live", most),
      commandLine,
      heldBack: () => heldBack({ cache: this.#cache, desired: this.#desired }),
      requestFull: (reason) => this.#loop.requestFull(reason),
      clock: runtime.clock,
      logger,
      signal,
    });
  }

  /** Returns all objects, or those of one Service and of the Services that hold its claims. */
  #objects(service?: string): AsyncIterable<Uint8Array> | undefined {
    if (!this.#cache.consistent) return undefined;
    const { nodeName, runtime: { clock } } = this.#options;
    const turns = new Turns(clock);
    const rivals = this.#desired.conflicts().filter(({ loser }) => loser === service);
    const objects = service === undefined
      ? this.#cache
      : objectsOf([service, ...rivals.map(({ holder }) => holder)], this.#cache);
    const pause = () => turns.giveWay();
    return stateText(objects, { nodeName, written: this.#asOf(), pause });
  }

  /** Returns the time whose objects these are, milliseconds since the epoch. */
  #asOf(): number {
    if (this.#loop.stale) return this.#restored;
    const lost = [...this.#observation.watches.values()]
      .filter(({ state }) => state !== "watching" && state !== "absent");
    return Math.min(
      this.#options.runtime.clock.now(),
      ...lost.map(({ lastEvent }) => lastEvent || this.#started),
    );
  }

  /** Takes the objects of the state file if the node has no rules, before the source begins. */
  async #restore(): Promise<void> {
    const { stateFile: path } = this.#options.configuration.signpost;
    if (path === "" || !this.#opened.source.api) return;
    const { keeper, found } = await openStateFile({
      ...this.#options,
      path,
      foreignRules: this.#opened.backend.foreignRules,
      cache: this.#cache,
    });
    this.#keeper = keeper;
    if (found.type === "objects") {
      this.#restored = found.written;
      await this.#loop.restore(found.events);
    }
    // A lost API server is no reason for load balancers to leave a node that has rules, or gets them now.
    const node = this.#cache.node ?? (found.type === "rules" ? { deleting: false } : undefined);
    if (node) this.#health.setNode(node);
  }

  /** Follows a try to sync. No other work may run before the statuses of Services are those of the kernel. */
  #follow(outcome: SyncOutcome): void {
    const { applied, isFull } = outcome;
    this.#services.follow(outcome);
    if (!applied || isFull) this.#findings.suspected();
    else this.#findings.changed();
    if (!applied) return;
    this.#synced(applied);
    void this.#healthChecks.sync(new Map(this.#desired.healthChecks));
  }

  #synced(kind: Script["kind"]): void {
    const { runtime, logger, signal } = this.#options;
    if (!this.#isReady) {
      this.#isReady = true;
      const services = this.#desired.services.size;
      logger.info("ready", { services, in: `${runtime.clock.now() - this.#started}ms` });
    }
    this.#firstSync.resolve();
    runtime.releaseMemory(kind === "full" ? "large" : "small", signal);
    // The state of the file must not be written back as a new one.
    if (!this.#cache.complete) return;
    this.#keeper?.changed();
    if (this.#isAnnounced) return;
    this.#isAnnounced = true;
    this.#report(startingEvent(this.#options.nodeName, this.#opened.backend.traits.name));
  }

  async #lastEvents(): Promise<void> {
    const enough = this.#options.runtime.clock.sleep(LAST_EVENTS, this.#options.signal);
    await Promise.race([this.#events?.flushed(), enough]);
  }

  /** Moves the rules behind those of a proxy that starts next, as after a `kubectl rollout undo`. They still serve. */
  async #stepBehind(): Promise<void> {
    try {
      await this.#opened.backend.stepBehind?.();
    } catch (error) {
      if (!(error instanceof ApplyError)) throw error;
      this.#options.logger.warn(
        "the rules stay before those of other proxies: run `signpost cleanup` once another proxy has started",
        { error: error.message },
      );
    }
  }

  #watchDrift(): Promise<void> {
    return this.#opened.backend.watchDrift({
      desired: this.#desired,
      onDrift: (drift) => this.#loop.drifted(drift),
      onChange: (reason) => this.#loop.requestFull(reason),
      signal: this.#options.signal,
    });
  }

  #takeOver(): Promise<void> {
    const { configuration, signal } = this.#options;
    const { traits, foreignRules } = this.#opened.backend;
    return foreignRules.run({
      period: configuration[traits.name].syncPeriod,
      looked: () => this.#findings.changed(),
      requestFull: (reason) => this.#loop.requestFull(reason),
      signal,
    });
  }

  #report(event: EventReport): void {
    this.#events?.record(event);
  }

  #facts(): NodeFacts {
    const { configuration, nodeName, runtime } = this.#options;
    const { node } = this.#cache;
    const { backend, findings, source: { api } } = this.#opened;
    return {
      nodeName,
      configuration,
      traits: backend.traits,
      interfaceAddresses: runtime.addresses(),
      apiServerAddresses: this.#ownPorts.serverAddresses,
      system: this.#system,
      ruleset: this.#ruleset,
      rival: backend.foreignRules.rival,
      localhostFailures: this.#options.localhost.failures,
      apiServer: api && { where: api.url.origin, warnings: api.warnings, failures: [] },
      probed: findings,
      settingFailures: this.#settingFailures,
      healthCheckFailures: this.#healthChecks.failures,
      objects: this.#cache.complete
        ? { node, desired: this.#desired, healthChecks: this.#desired.healthChecks }
        : undefined,
    };
  }

  #status(): Status {
    return statusReport({
      options: this.#options,
      opened: this.#opened,
      cache: this.#cache,
      desired: this.#desired,
      loop: this.#loop,
      observation: this.#observation,
      health: this.#health,
      findings: this.#findings,
      ownPorts: this.#ownPorts,
      started: this.#started,
      snapshotAge: this.#keeper?.age(),
    });
  }
}

/** Ends when the signal aborts, or with the first failure. */
async function untilAborted(
  signal: AbortSignal,
  parts: readonly Promise<unknown>[],
): Promise<void> {
  const aborted = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
  const failed = Promise.all(parts).then(() => aborted);
  await Promise.race([aborted, failed]);
}
