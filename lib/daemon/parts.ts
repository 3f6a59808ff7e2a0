/** Makes the parts of the daemon, and connects them. */
import { familiesBut } from "../backend/backend.ts";
import type { OpenBackend } from "../backend/choose.ts";
import { Connections } from "../backend/connections.ts";
import { ObjectCache } from "../cache/cache.ts";
import { knownGates } from "../config/checks.ts";
import type { Configuration } from "../config/configuration.ts";
import { ConntrackCleaner } from "../conntrack/conntrack.ts";
import type { NodeFacts, RulesetFacts, SettingFailure, SystemFacts } from "../findings/facts.ts";
import type { HealthCheckNodePorts } from "../healthcheck/node_ports.ts";
import type { LocalhostListeners } from "../localhost/listeners.ts";
import { LocalhostNodePorts } from "../localhost/node_ports.ts";
import type { Refusal } from "../model/cluster/objects.ts";
import type { CommandLine } from "../model/configuration.ts";
import type { Finding } from "../model/status.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { VERSION } from "../model/version.ts";
import { EventRecorder, type EventReport, nodeEvent } from "../observe/events.ts";
import { ProxyHealth } from "../observe/health.ts";
import { Metrics } from "../observe/metrics/metrics.ts";
import type { ServiceManager } from "../observe/systemd.ts";
import { Desired } from "../policy/state.ts";
import type { StateKeeper } from "../source/saved/keeper.ts";
import type { SyncOutcome } from "../sync/reports.ts";
import { SyncLoop } from "../sync/sync.ts";
import type { KeptServers } from "../system/kept_servers.ts";
import { processUsage } from "../system/runtime.ts";
import { OwnPorts } from "./objects/own_ports.ts";
import { postJson, type Source } from "./objects/source.ts";
import { NodeFindings, readSystem } from "./reports/node_findings.ts";
import { Observation } from "./reports/observation.ts";
import { ServiceSyncs } from "./reports/service_syncs.ts";

export interface DaemonOptions {
  readonly configuration: Configuration;
  readonly commandLine: CommandLine;
  readonly nodeName: string;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly manager: ServiceManager;
  /** Outlives the daemon: a new configuration keeps the listeners that it needs, too. */
  readonly localhost: LocalhostListeners;
  /** Outlives the daemon, as `localhost`. */
  readonly healthChecks: HealthCheckNodePorts;
  /** Outlives the daemon, as `localhost`: probes and scrapes get answers meanwhile. */
  readonly servers: Pick<KeptServers, "keep">;
  /** Aborts when the process is told to stop, or its configuration has changed. */
  readonly signal: AbortSignal;
}

export class Parts {
  readonly cache = new ObjectCache();
  readonly desired: Desired;
  readonly loop: SyncLoop;
  readonly metrics: Metrics;
  readonly connections: Connections;
  readonly health: ProxyHealth;
  /** `undefined`: without an API server there is no receiver of Events. */
  readonly events: EventRecorder | undefined;
  readonly observation: Observation;
  readonly findings: NodeFindings;
  readonly serviceSyncs: ServiceSyncs;
  readonly ownPorts: OwnPorts;
  readonly started: number;
  /** When the objects of the state file were written, milliseconds since the epoch. */
  restored = 0;
  keeper: StateKeeper | undefined;
  /** The API server's version, such as `1.33.4`, once it is known. */
  serverVersion: string | undefined;
  settingFailures: readonly SettingFailure[] = [];
  /** By name: the health and the metrics server, while they cannot listen. */
  readonly serverFailures = new Map<string, Finding>();
  #system: SystemFacts | undefined;
  #ruleset: RulesetFacts | undefined;
  readonly #firstSync = Promise.withResolvers<void>();
  /** The kernel has the rules. */
  isReady = false;
  #isAnnounced = false;

  constructor(
    readonly options: DaemonOptions,
    readonly opened: OpenBackend & { readonly source: Source },
  ) {
    const { configuration, nodeName, runtime: { clock }, logger, signal } = options;
    const { backend, missing, refusedFeatures, source: { api } } = opened;
    const { traits } = backend;
    const settings = configuration[traits.name];
    this.started = clock.now();
    this.ownPorts = new OwnPorts({ ...options, locate: api?.locate });
    this.desired = new Desired({
      configuration,
      traits,
      nodeName,
      ipFamilies: familiesBut(missing),
      refusedFeatures,
      ...this.ownPorts.around,
    });
    this.connections = new Connections({
      node: nodeName,
      counters: configuration.signpost.serviceMetrics
        ? refusedFeatures.get("connection-counters") ?? backend.connections
        : "--service-metrics is off",
      services: () => this.desired.services,
      clock,
      logger,
    });
    this.metrics = new Metrics({
      backend: backend.metrics,
      localhost: traits.localhostNodePorts === "listeners" ? options.localhost : undefined,
      families: familiesBut(missing),
      observed: () => this.observation,
      sync: () => this.loop.progress,
      desired: this.desired,
      serverVersion: () => this.serverVersion,
      snapshotAge: () => this.keeper?.age(),
      isStale: () => this.loop.stale,
      findings: () => this.findings.list,
      refused: () => this.refusals,
      connections: this.connections.isOn ? () => this.connections.batches() : undefined,
      process: processUsage(),
      featureGates: knownGates(configuration),
    });
    this.health = new ProxyHealth({
      clock,
      timeout: 2 * settings.syncPeriod,
      missing,
      sync: () => this.loop.progress,
      progress: () => backend.progress,
    });
    this.events = api && new EventRecorder({
      post: (path, body) => postJson(api, { path, body, signal }),
      clock,
      logger,
      instance: nodeName,
      dropped: () => this.metrics.droppedEvents.inc({}),
    });
    this.serviceSyncs = new ServiceSyncs({ desired: this.desired, clock });
    this.observation = new Observation(this);
    this.findings = new NodeFindings({
      gather: async (isFull) => {
        if (isFull) {
          this.#system = await readSystem(options, this.#system);
          this.#ruleset = await backend.readRuleset().catch(() => undefined);
        }
        return this.#facts();
      },
      appeared: (finding) => this.observation.found(finding),
      clock,
      logger,
    });
    const conntrack = new ConntrackCleaner({
      ...options,
      state: this.desired,
      metrics: this.metrics,
    });
    const localhost = new LocalhostNodePorts(this.desired);
    this.loop = new SyncLoop({
      cache: this.cache,
      desired: this.desired,
      backend,
      clock,
      logger,
      observer: this.observation,
      minSyncPeriod: settings.minSyncPeriod,
      share: traits.share,
      fullSyncPeriod: configuration.signpost.fullSyncPeriod,
      afterSync: [
        (outcome) => this.#follow(outcome),
        (outcome, turns) => turns.run(conntrack.following(outcome)),
        async (outcome, turns) => {
          await turns.run(localhost.following(outcome));
          options.localhost.endDeleted(this.desired.services);
          // Beside the next sync: there may be thousands of listeners to open.
          void options.localhost.sync(localhost.wanted, logger).then(() => {
            if (options.localhost.failures.length > 0) this.findings.changed();
          });
        },
      ],
      signal,
    });
  }

  get firstSync(): Promise<void> {
    return this.#firstSync.promise;
  }

  /** All objects whose present state is not used: malformed ones, and those over a limit. */
  get refusals(): readonly Refusal[] {
    return [...this.cache.refused, ...this.desired.overLimit()];
  }

  readonly watchesChanged = (): void => this.findings.changed();

  readonly report = (event: EventReport): void => this.events?.record(event);

  /** Follows a try to sync. No other work may run before the statuses of Services are those of the kernel. */
  #follow(outcome: SyncOutcome): void {
    const { applied, isFull } = outcome;
    this.serviceSyncs.follow(outcome);
    if (!applied || isFull) this.findings.suspected();
    else this.findings.changed();
    if (!applied) return;
    this.#synced();
    void this.#serveHealthChecks();
  }

  #serveHealthChecks(): Promise<void> {
    const { healthChecks, logger, runtime } = this.options;
    return healthChecks.sync(new Map(this.desired.healthChecks), {
      where: () => ({ node: this.desired.node, ownAddresses: runtime.addresses() }),
      isHealthy: () => this.health.report().healthy,
      logger,
      changed: () => this.findings.changed(),
    });
  }

  #synced(): void {
    const { nodeName, runtime, logger, signal } = this.options;
    if (!this.isReady) {
      this.isReady = true;
      const services = this.desired.services.size;
      logger.info("ready", { services, in: `${runtime.clock.now() - this.started}ms` });
    }
    this.#firstSync.resolve();
    runtime.releaseMemory(signal);
    // The state of the file must not be written back as a new one.
    if (!this.cache.complete) return;
    this.keeper?.changed();
    if (this.#isAnnounced) return;
    this.#isAnnounced = true;
    const note = `signpost ${VERSION} in ${this.opened.backend.traits.name} mode`;
    this.report(nodeEvent(nodeName, { type: "Normal", reason: "Starting", note }));
  }

  #facts(): NodeFacts {
    const { configuration, nodeName, runtime, localhost, healthChecks } = this.options;
    const { backend, findings, source: { api } } = this.opened;
    return {
      nodeName,
      configuration,
      traits: backend.traits,
      interfaceAddresses: runtime.addresses(),
      apiServerAddresses: this.ownPorts.serverAddresses,
      system: this.#system,
      ruleset: this.#ruleset,
      rival: backend.foreignRules.rival,
      localhostFailures: localhost.failures,
      apiServer: api &&
        { where: api.url.origin, warnings: api.warnings, failures: this.observation.watchFailures },
      probed: findings,
      settingFailures: this.settingFailures,
      serverFailures: [...this.serverFailures.values()],
      healthCheckFailures: healthChecks.failures,
      excess: this.cache.excess,
      objects: this.cache.complete ? { node: this.cache.node, desired: this.desired } : undefined,
    };
  }
}
