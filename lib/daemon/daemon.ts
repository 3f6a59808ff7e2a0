/** Runs the parts of the daemon, from its start to its end. */
import { openBackend } from "../backend/choose.ts";
import { applyKernelSettings } from "../conntrack/kernel_settings.ts";
import { finding } from "../findings/catalog.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import { splitHostPort } from "../model/cluster/names.ts";
import { Turns } from "../model/ports/in_turns.ts";
import { fatalIf } from "../model/values/errors.ts";
import { VERSION } from "../model/version.ts";
import { fieldAt } from "../model/values/record.ts";
import { healthServer, metricsServer } from "../observe/endpoints.ts";
import { nodeEvent } from "../observe/events.ts";
import { serveHttp } from "../system/http_servers.ts";
import { ProgramWatch } from "../system/program_watch.ts";
import { serveSocket, type SocketRoutes } from "../system/socket.ts";
import { stateText } from "../system/state_file.ts";
import { restore } from "./objects/saved_state.ts";
import { openSource } from "./objects/source.ts";
import { beTheOnlyDaemon } from "./one_daemon.ts";
import { type DaemonOptions, Parts } from "./parts.ts";
import { explanation } from "./reports/explanation.ts";
import { announceReady } from "./reports/service_manager.ts";
import { asOf, heldBack, statusReport } from "./reports/status_report.ts";

/** Milliseconds without progress after which a sync is stuck, and the watchdog is no longer fed. */
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
  // The kubeconfig is read while nft is asked what the kernel can do.
  const [opened, source] = await Promise.all([openBackend(options), openSource(options)]);
  if (signal.aborted) return;
  const parts = new Parts(options, { ...opened, source });
  programs.reportTo((program, reason) => parts.metrics.programFailures.inc({ program, reason }));
  await run(parts);
}

async function run(parts: Parts): Promise<void> {
  const { logger, manager, nodeName, signal } = parts.options;
  const { backend, source } = parts.opened;
  const { loop, ownPorts, firstSync, observation, metrics, findings } = parts;
  logger.info("started", { version: VERSION, mode: backend.traits.name, node: nodeName });
  const answering = answer(parts);
  const begun = Promise.all([restore(parts), ownPorts.begin(signal)]);
  // The loop comes first: it takes the objects of the state file before an event does.
  const writing = begun.then(() => loop.run());
  const delivering = begun.then(() =>
    source.run({ sink: loop.handle, watchChanged: observation.watchChanged, requests: metrics })
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
      announceReady(parts),
      ownPorts.follow(() => loop.nodeChanged(), signal),
      manager.feedWatchdog(() => loop.busy < STUCK, ended.signal),
      firstSync.then(() => watchDrift(parts)),
      firstSync.then(() => takingOver = takeOver(parts)),
      firstSync.then(async () => {
        parts.settingFailures = await applyKernelSettings(parts.options);
        findings.changed();
      }),
      firstSync.then(() => parts.connections.begin()),
      findings.follow(firstSync, signal),
      firstSync.then(() => followServerVersion(parts)),
    ]);
  } finally {
    await Promise.all([
      parts.keeper?.stop(),
      // An Event may say why the daemon ends.
      signal.aborted ? undefined : lastEvents(parts),
      // The socket is removed at the abort only, so it is not waited for after a failure.
      signal.aborted ? answering : undefined,
      // Two daemons must not write at the same time. After a failure, the write goes on until the process ends.
      signal.aborted ? writing.catch(() => {}) : undefined,
      signal.aborted ? takingOver?.catch(() => {}) : undefined,
    ]);
    if (signal.aborted && parts.isReady) await stepBehind(parts);
    ended.abort();
    parts.options.healthChecks.release();
    await Promise.allSettled([serving]);
  }
}

/** Serves health and metrics. @throws {FatalError} if `bindAddressHardFail` is set and an address is taken */
async function serveAll(parts: Parts, signal: AbortSignal): Promise<void> {
  const { configuration, nodeName, runtime: { clock, pid }, logger, servers } = parts.options;
  const { health, metrics, findings, desired, connections, report } = parts;
  const status = () => statusReport(parts);
  // The reasons of their Events are kube-proxy's.
  const served = [{
    name: "healthz",
    address: configuration.healthzBindAddress,
    reason: "FailedToStartProxierHealthcheck",
    handler: healthServer({ pid, health, metrics, findings: () => findings.list }),
  }, {
    name: "metrics",
    address: configuration.metricsBindAddress,
    reason: "FailedToStartMetricServer",
    handler: metricsServer({
      metrics,
      clock,
      configuration,
      traits: parts.opened.backend.traits,
      status,
      page: async () => ({
        connections: await connections.list(),
        status: status(),
        services: desired.services,
        now: clock.now(),
      }),
    }),
  }];
  const serving = served.filter(({ address }) => address !== "").map(
    ({ name, address, reason, handler }) =>
      serveHttp(splitHostPort(address), {
        name,
        handler,
        hardFail: configuration.bindAddressHardFail,
        listen: servers.keep,
        failed: (what) => {
          report(nodeEvent(nodeName, { type: "Warning", reason, note: what }));
          parts.serverFailures.set(name, finding("own-port-taken", { what, where: address }));
          findings.changed();
        },
        listening: () => {
          if (parts.serverFailures.delete(name)) findings.changed();
        },
        clock,
        logger,
        signal,
      }),
  );
  await Promise.all(serving).catch(fatalIf(Error));
}

/** Answers at the local socket, if there is one, until the signal aborts. */
async function answer(parts: Parts): Promise<void> {
  const { configuration, runtime: { clock }, logger, signal } = parts.options;
  const path = configuration.signpost.socket;
  if (path === "") return;
  await serveSocket({ path, routes: socketRoutes(parts), clock, logger, signal });
}

/** Returns the answers of the local socket. Its clients are `lib/cli/client.ts`. */
export function socketRoutes(parts: Parts): SocketRoutes {
  const { options, findings, connections, loop } = parts;
  return {
    "GET /v1/status": async (query) => {
      if (query.has("fresh")) await findings.refresh();
      return statusReport(parts);
    },
    "GET /v1/objects": () => objects(parts),
    "GET /v1/services": () => [...parts.cache.services.keys()],
    "GET /v1/explain": (query) => explanation(parts, query),
    "GET /v1/connections": (query) => {
      const top = query.get("top") ?? "";
      return connections.report(/^\d{1,9}$/.test(top) ? Number(top) : undefined);
    },
    "GET /v1/command-line": () => options.commandLine,
    "GET /v1/held-back": () => heldBack(parts),
    "POST /v1/full-sync": () => {
      loop.requestFull("asked for at the local socket");
      return { requested: true };
    },
  };
}

/** Returns all objects as the text of a state. */
function objects(parts: Parts): ReadableStream<Uint8Array> | undefined {
  const { cache, options: { nodeName, runtime: { clock } } } = parts;
  if (!cache.consistent) return undefined;
  const turns = new Turns(clock);
  const pause = () => turns.giveWay();
  return ReadableStream.from(stateText(cache, { nodeName, written: asOf(parts), pause }));
}

async function lastEvents(parts: Parts): Promise<void> {
  const enough = parts.options.runtime.clock.sleep(LAST_EVENTS, parts.options.signal);
  await Promise.race([parts.events?.flushed(), enough]);
}

/** Moves the rules behind those of a proxy that starts next, as after a `kubectl rollout undo`. They still serve. */
async function stepBehind(parts: Parts): Promise<void> {
  try {
    await parts.opened.backend.stepBehind?.();
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    parts.options.logger.warn(
      "the rules stay before those of other proxies: run `signpost cleanup` once another proxy has started",
      { error: error.message },
    );
  }
}

/** Milliseconds between two questions for the API server's version; alerts on it wait for 15 minutes. */
const VERSION_PERIOD = 600_000;

/** Keeps the API server's version for the metrics. A server that does not say it leaves the last one. */
async function followServerVersion(parts: Parts): Promise<void> {
  const { options: { runtime: { clock }, signal }, opened: { source: { api } } } = parts;
  while (api && !signal.aborted) {
    const answer = await api.client.json("/version", { signal }).catch(() => undefined);
    const [, version] = /^v(\d+\.\d+\.\d+)/.exec(String(fieldAt(answer, "gitVersion"))) ?? [];
    if (version !== undefined) parts.serverVersion = version;
    await clock.sleep(VERSION_PERIOD, signal);
  }
}

function watchDrift(parts: Parts): Promise<void> {
  const { desired, loop } = parts;
  return parts.opened.backend.watchDrift({
    desired,
    onDrift: (drift) => loop.drifted(drift),
    onChange: (reason) => loop.requestFull(reason),
    signal: parts.options.signal,
  });
}

function takeOver(parts: Parts): Promise<void> {
  const { configuration, signal } = parts.options;
  const { traits, foreignRules } = parts.opened.backend;
  return foreignRules.run({
    period: configuration[traits.name].syncPeriod,
    looked: () => parts.findings.changed(),
    requestFull: (reason) => parts.loop.requestFull(reason),
    signal,
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
