/** `signpost run`: runs the daemon, and restarts it with each valid new configuration. */
import { checkBackend } from "../backend/choose.ts";
import { runDaemon } from "../daemon/daemon.ts";
import { openServiceManager } from "../daemon/reports/service_manager.ts";
import { HealthCheckNodePorts } from "../healthcheck/node_ports.ts";
import { LocalhostListeners } from "../localhost/listeners.ts";
import { httpListen, KeptServers } from "../system/http_servers.ts";
import { tcp } from "../system/tcp.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";
import { type CommandContext, type ConfigurationFile, nodeNameOf, openLog } from "./context.ts";
import { loadConfiguration } from "../config/load.ts";
import { checkSource } from "../daemon/objects/source.ts";
import { messageIfFatal } from "../model/values/errors.ts";
import { AutoResetEvent } from "../model/values/timing.ts";
import type { ServiceManager } from "../observe/systemd.ts";

interface RunOptions extends CommandContext {
  readonly argv: readonly string[];
  readonly configuration: Configuration;
  readonly logger: Logger;
  readonly recentLog: string[];
  readonly file: ConfigurationFile;
}

/** Milliseconds to wait for a transaction at the end: systemd kills the process after 15 s. */
const STOP_LIMIT = 10_000;

/** Runs the daemon until the abort. A valid new configuration ends it and starts another; the rules stay. */
export async function run(options: RunOptions): Promise<void> {
  const { runtime, signal, systemd, argv, file, recentLog } = options;
  const manager = openServiceManager(systemd, options);
  const request = new AutoResetEvent(runtime.clock);
  options.reload(() => request.set());
  const late = Promise.withResolvers<undefined>();
  const stop = () => void runtime.clock.sleep(STOP_LIMIT).then(() => late.resolve(undefined));
  signal.addEventListener("abort", stop, { once: true });
  let { configuration, logger } = options;
  const { clock } = runtime;
  const idle = () => runtime.releaseMemory(signal);
  await using localhost = new LocalhostListeners({ tcp: tcp(), clock, idle });
  const listen = httpListen({ clock, logger: { warn: (...line) => logger.warn(...line) }, idle });
  await using servers = new KeptServers({ listen, clock });
  await using healthChecks = new HealthCheckNodePorts({ listen, clock });
  while (!signal.aborted) {
    const over = new AbortController();
    const parts = { configuration, runtime, logger, recentLog, manager };
    const either = AbortSignal.any([signal, over.signal]);
    const reading = nextConfiguration({ ...parts, argv, file, request, signal: either });
    const daemon = runDaemon({
      ...parts,
      commandLine: { argv, workingDirectory: runtime.workingDirectory(), file: file.contents },
      nodeName: nodeNameOf(configuration, runtime),
      localhost,
      healthChecks,
      servers,
      signal: either,
      processSignal: signal,
    });
    const ended = [reading, daemon].map((part) => part.finally(() => over.abort()));
    const next = await Promise.race([Promise.all(ended).then(() => reading), late.promise]);
    if (!next) continue;
    if (addressesOf(next) !== addressesOf(configuration)) await servers[Symbol.asyncDispose]();
    configuration = next;
    logger = openLog(configuration, { runtime, recentLog });
    logger.info("the configuration was read again");
  }
  await manager.report("STOPPING");
  logger.info("stopped; the rules stay in the kernel");
}

function addressesOf({ healthzBindAddress, metricsBindAddress }: Configuration): string {
  return `${healthzBindAddress} ${metricsBindAddress}`;
}

/** Milliseconds between two looks at the configuration file. */
const LOOK_PERIOD = 1_000;

/** Milliseconds between two looks at an unusable kubeconfig, unusable manifests or an unusable mode. */
const RETRY_PERIOD = 5_000;

interface ReloadOptions extends Omit<RunOptions, "systemd" | "reload" | "recentLog"> {
  readonly manager: Pick<ServiceManager, "report">;
  /** Set when the configuration must be read again. */
  readonly request: AutoResetEvent;
}

/** Waits for a valid configuration that differs. @returns `undefined`: the signal has aborted */
export async function nextConfiguration(
  options: ReloadOptions,
): Promise<Configuration | undefined> {
  const { file, runtime: { clock }, logger, manager, request, signal } = options;
  /** A new configuration whose kubeconfig, manifests or mode cannot be used. */
  let refused: Configuration | undefined;
  let checked = 0;
  for (;;) {
    const isAsked = await request.wait(LOOK_PERIOD, signal);
    if (signal.aborted) return undefined;
    if (isAsked || await file.hasChanged()) {
      if (!isAsked) logger.info("the configuration file has changed");
      await manager.report("RELOADING");
      refused = await load(options);
      const problem = refused && await startProblem(refused, options);
      if (refused && problem === undefined) return refused;
      if (problem) refuse(`${problem}; signpost uses it as soon as this is fixed`, logger);
      await manager.report("READY");
    } else if (!refused || clock.monotonic() - checked < RETRY_PERIOD) {
      continue;
    } else if (await startProblem(refused, options) === undefined) {
      return refused;
    }
    checked = clock.monotonic();
  }
}

/** Loads the configuration. @returns `undefined` if it is not valid or has not changed */
async function load(
  { argv, file, logger, configuration }: ReloadOptions,
): Promise<Configuration | undefined> {
  const loaded = await loadConfiguration(argv, { readFile: file.read });
  if (loaded.type === "errors") {
    for (const error of loaded.errors) refuse(error, logger);
    return undefined;
  }
  if (loaded.type !== "run") return undefined;
  for (const warning of loaded.warnings) logger.warn(warning);
  if (JSON.stringify(loaded.configuration) !== JSON.stringify(configuration)) {
    return loaded.configuration;
  }
  logger.info("the configuration has not changed");
  return undefined;
}

/** Returns why a start with this configuration would end the process. */
async function startProblem(
  configuration: Configuration,
  options: ReloadOptions,
): Promise<string | undefined> {
  const next = { ...options, configuration, nodeName: nodeNameOf(configuration, options.runtime) };
  const checking = Promise.all([checkSource(next), checkBackend(next, options.configuration)]);
  return await checking.then(() => undefined, messageIfFatal);
}

function refuse(error: string, logger: Logger): void {
  logger.error(`the new configuration is refused, and the old one stays: ${error}`);
}
