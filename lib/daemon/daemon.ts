/** Runs the parts of the daemon, from its start to its end. */
import { openBackend } from "../backend/choose.ts";
import { ConntrackCleaner } from "../conntrack/conntrack.ts";
import { applyKernelSettings } from "../conntrack/kernel_settings.ts";
import { LocalhostNodePorts } from "../localhost/listeners.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import { fieldAt } from "../model/values/record.ts";
import { VERSION } from "../model/version.ts";
import { nodeEvent } from "../observe/events.ts";
import type { SyncOutcome, SyncStep } from "../sync/reports.ts";
import { ProgramWatch } from "../system/process.ts";
import { restore } from "./objects/saved_state.ts";
import { openSource } from "./objects/source.ts";
import { beTheOnlyDaemon } from "./one_daemon.ts";
import { type DaemonOptions, makeParts, type Parts } from "./parts.ts";
import { announceReady } from "./reports/service_manager.ts";
import { answerSocket, serveAll } from "./servers.ts";

/** Milliseconds without progress after which a sync is stuck, and systemd's watchdog is not fed. */
const STUCK = 120_000;

/** Milliseconds for the last Events after another part has failed. */
const LAST_EVENTS = 1_000;

/** Runs until the signal aborts. The rules stay in the kernel. @throws {FatalError} if it cannot start or go on */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const over = new AbortController();
  try {
    await start({ ...options, signal: AbortSignal.any([options.signal, over.signal]) });
  } finally {
    over.abort();
  }
}

async function start(given: DaemonOptions): Promise<void> {
  const { configuration, runtime, logger, signal } = given;
  await beTheOnlyDaemon({ ...given, wait: configuration.signpost.wait });
  if (signal.aborted) return;
  const programs = new ProgramWatch({ ...runtime, logger });
  const options = { ...given, runtime: { ...runtime, runner: programs } };
  // The kubeconfig is read while nft probes the kernel.
  const [opened, source] = await Promise.all([openBackend(options), openSource(options)]);
  if (signal.aborted) return;
  const parts = makeParts(options, { ...opened, source });
  programs.reportTo((program, reason) => parts.metrics.programFailures.inc({ program, reason }));
  await run(parts);
}

async function run(parts: Parts): Promise<void> {
  const { logger, manager, nodeName, signal } = parts.options;
  const { backend, source } = parts.opened;
  const { loop, ownPorts, observation, metrics, findings, findingsChanged } = parts;
  logger.info("started", { version: VERSION, mode: backend.traits.name, node: nodeName });
  const { promise: firstSync, resolve: synced } = Promise.withResolvers<void>();
  const answering = answerSocket(parts);
  const begun = Promise.all([restore(parts), ownPorts.begin(signal)]);
  // The loop starts before the source: it takes the objects of the state file before an event arrives.
  const writing = begun.then(() => loop.run(stepsAfterSync(parts, synced)));
  const delivering = begun.then(() =>
    source.run({
      sink: loop.handle,
      watchChanged: observation.watchChanged,
      requests: metrics,
      firstSync,
    })
  );
  const ended = new AbortController();
  const serving = serveAll(parts, ended.signal);
  let takingOver: Promise<void> | undefined;
  try {
    await untilAborted(signal, [
      writing,
      delivering,
      serving,
      answering,
      announceReady(parts, firstSync),
      ownPorts.follow(() => loop.nodeChanged(), signal),
      manager.feedWatchdog(() => loop.busy < STUCK, ended.signal),
      firstSync.then(() => backend.dataplane.watchDrift(parts.driftOptions)),
      firstSync.then(() => takingOver = takeOver(parts)),
      firstSync.then(async () => {
        observation.settingFailures = await applyKernelSettings(parts.options);
        findingsChanged.set();
      }),
      firstSync.then(() => parts.connections.begin()),
      findings.follow(firstSync, signal),
      firstSync.then(() => followServerVersion(parts)),
    ]);
  } finally {
    // A stop waits for the removal of the socket, and for writes: two daemons must not write at the same time. After a
    // failure, writes continue until the process ends, and an Event may have the reason.
    const last = signal.aborted
      ? [answering, writing.catch(() => {}), takingOver?.catch(() => {})]
      : [lastEvents(parts)];
    await Promise.all([parts.keeper?.stop(), ...last]);
    if (parts.options.processSignal.aborted && takingOver) await stepBehind(parts);
    ended.abort();
    parts.options.healthChecks.release();
    await Promise.allSettled([serving]);
  }
}

/** Returns the steps that follow each try to sync. @param synced called after each success */
function stepsAfterSync(parts: Parts, synced: () => void): readonly SyncStep[] {
  const { options, cache, desired, serviceSyncs, history, findings, findingsChanged } = parts;
  const { nodeName, runtime, logger, signal } = options;
  const conntrack = new ConntrackCleaner({ ...options, ...parts, state: desired });
  const localhost = new LocalhostNodePorts(desired);
  let [isReady, isAnnounced] = [false, false];
  const follow = (outcome: SyncOutcome) => {
    serviceSyncs.follow(outcome);
    history.follow(outcome);
    if (!outcome.applied || outcome.isFull) findings.suspected();
    else findingsChanged.set();
    if (!outcome.applied) return;
    if (!isReady) {
      isReady = true;
      const took = runtime.clock.now() - parts.observation.since;
      logger.info("ready", { services: desired.services.size, in: `${took}ms` });
    }
    synced();
    runtime.releaseMemory(signal);
    void options.healthChecks.sync(new Map(desired.healthChecks), {
      where: () => ({ node: desired.node, ownAddresses: runtime.addresses() }),
      isHealthy: () => parts.health.report().healthy,
      logger,
      changed: () => findingsChanged.set(),
    });
    // The state that was read from the file must not be written back as a new one.
    if (!cache.complete) return;
    parts.keeper?.changed();
    if (isAnnounced) return;
    isAnnounced = true;
    const note = `signpost ${VERSION} in ${parts.opened.backend.traits.name} mode`;
    parts.report(nodeEvent(nodeName, { type: "Normal", reason: "Starting", note }));
  };
  return [
    // The statuses of Services match the kernel before other work runs.
    follow,
    (outcome, turns) => turns.run(conntrack.following(outcome)),
    async (outcome, turns) => {
      await turns.run(localhost.following(outcome));
      options.localhost.endDeleted(desired.services);
      // This runs beside the next sync: there may be thousands of listeners to open.
      void options.localhost.sync(localhost.wanted, logger).then(() => {
        if (options.localhost.failures.length > 0) findingsChanged.set();
      });
    },
  ];
}

async function lastEvents({ options, events }: Parts): Promise<void> {
  const enough = options.runtime.clock.sleep(LAST_EVENTS, options.signal);
  await Promise.race([events?.flushed(), enough]);
}

/** Lets the rules of the next proxy decide, as after a `kubectl rollout undo`. Our rules still serve until then. */
async function stepBehind(parts: Parts): Promise<void> {
  try {
    await parts.opened.backend.dataplane.stepBehind?.();
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    parts.options.logger.warn(
      "signpost's rules still take precedence: run `signpost cleanup` once another proxy has started",
      { error: error.message },
    );
  }
}

/** Milliseconds between two requests for the API server's version. Alerts on it wait for 15 minutes. */
const VERSION_PERIOD = 600_000;

/** Keeps the API server's version for the metrics. After an answer without a version, the last one stays. */
async function followServerVersion(parts: Parts): Promise<void> {
  const { options: { runtime: { clock }, signal }, opened: { source: { api } } } = parts;
  while (api && !signal.aborted) {
    const answer = await api.client.json("/version", { signal }).catch(() => undefined);
    const [, version] = /^v(\d+\.\d+\.\d+)/.exec(String(fieldAt(answer, "gitVersion"))) ?? [];
    if (version !== undefined) parts.observation.serverVersion = version;
    await clock.sleep(VERSION_PERIOD, signal);
  }
}

function takeOver({ options, opened: { backend }, findingsChanged, loop }: Parts): Promise<void> {
  return backend.foreignRules.run({
    period: options.configuration[backend.traits.name].syncPeriod,
    looked: () => findingsChanged.set(),
    requestFull: (reason) => loop.requestFull(reason),
    signal: options.signal,
  });
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
