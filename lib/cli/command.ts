/**
 * From the words of the command line to what they ask for.
 *
 * @module
 */
import type { Command } from "../config/command.ts";
import { type Invocation, loadConfiguration } from "../config/load.ts";
import type { Configuration } from "../model/configuration.ts";
import type { Logger } from "../model/ports.ts";
import { createLogger } from "../observe/log/log.ts";
import type { SystemdEnvironment } from "../observe/systemd.ts";
import { stderrIsJournal, stderrSink } from "../system/stderr_sink.ts";
import type { Runtime } from "../model/runtime.ts";
import { runDaemon } from "../daemon/run.ts";
import { cleanup } from "./cleanup.ts";
import { FatalError } from "../model/fatal.ts";
import { openServiceManager } from "../daemon/service_manager.ts";
import { once } from "./once.ts";
import { performQuery } from "./queries.ts";
import type { Query } from "./query.ts";
import { terseLog } from "./terse_log.ts";
import { VERSION_TEXT } from "../model/version.ts";

/** What a command works with. */
export interface CommandContext {
  readonly runtime: Runtime;
  /** Aborts when the process is told to stop. */
  readonly signal: AbortSignal;
  /** What systemd told this process. */
  readonly systemd: SystemdEnvironment;
  /** Calls back at each SIGHUP until the returned function is called. */
  readonly reload: (callback: () => Promise<void>) => () => void;
}

/**
 * Does what the command line says.
 *
 * @param argv the words after the program's name
 * @returns the exit code: 0 done, 1 cannot go on, 2 wrong flags or configuration; commands that only
 *   look: 0 nothing is wrong, 1 something is, 2 it cannot be told
 */
export async function runCommand(
  argv: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { runtime } = context;
  const invocation = await loadConfiguration(argv, {
    readFile: runtime.readFile,
    version: VERSION_TEXT,
  });
  switch (invocation.type) {
    case "help":
    case "version":
      await runtime.print(invocation.text);
      return 0;
    case "errors":
      for (const line of invocation.warnings) runtime.complain(`signpost: warning: ${line}`);
      for (const error of invocation.errors) runtime.complain(`signpost: ${error}`);
      return 2;
    case "run":
      return await guarded(invocation, { ...context, argv });
  }
}

type Run = Extract<Invocation, { readonly type: "run" }>;

/** Errors that end the process become one line and an exit code. */
async function guarded(
  invocation: Run,
  context: CommandContext & { readonly argv: readonly string[] },
): Promise<number> {
  const { command, configuration } = invocation;
  const { runtime } = context;
  const logger = isQuery(command)
    ? terseLog(runtime, configuration)
    : openLog(configuration, runtime);
  for (const warning of invocation.warnings) logger.warn(warning);
  try {
    return await perform(invocation, { ...context, logger });
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    logger.error(error.message);
    return isQuery(command) ? 2 : 1;
  }
}

async function perform(invocation: Run, context: RunContext): Promise<number> {
  const { command, configuration } = invocation;
  const { runtime } = context;
  const nodeName = nodeNameOf(configuration, runtime);
  if (isQuery(command)) return await performQuery(command, { ...context, configuration, nodeName });
  if (command.name === "cleanup") await cleanup({ ...context, ...command });
  else if (!command.once) await runReloading(invocation, context);
  else await once({ ...context, configuration, nodeName, output: command.output });
  return 0;
}

function isQuery(command: Command): command is Query {
  return command.name !== "run" && command.name !== "cleanup";
}

type RunContext = CommandContext & { readonly logger: Logger; readonly argv: readonly string[] };

/** Runs the daemon, and again with the new configuration after each SIGHUP that brings a good one. */
async function runReloading(invocation: Run, context: RunContext): Promise<void> {
  const { runtime, signal, systemd, reload, argv } = context;
  const manager = openServiceManager(systemd, context);
  let { configuration } = invocation;
  let logger = context.logger;
  while (!signal.aborted) {
    const changed = new AbortController();
    let next: Configuration | undefined;
    const stopListening = reload(async () => {
      await manager.reloading();
      next = await reloadConfiguration(argv, { runtime, logger, configuration });
      if (next) changed.abort();
      else await manager.ready("rules are in the kernel");
    });
    const stop = () => changed.abort();
    signal.addEventListener("abort", stop, { once: true });
    await runDaemon({
      configuration,
      nodeName: nodeNameOf(configuration, runtime),
      runtime,
      logger,
      manager,
      signal: changed.signal,
    }).finally(() => {
      stopListening();
      signal.removeEventListener("abort", stop);
    });
    if (next) {
      configuration = next;
      logger = openLog(configuration, runtime);
      logger.info("the configuration was read again");
    }
  }
  await manager.stopping();
}

/** @returns the new configuration, where it is good and differs */
async function reloadConfiguration(
  argv: readonly string[],
  current: {
    readonly runtime: Runtime;
    readonly logger: Logger;
    readonly configuration: Configuration;
  },
): Promise<Configuration | undefined> {
  const { runtime, logger, configuration } = current;
  const loaded = await loadConfiguration(argv, {
    readFile: runtime.readFile,
    version: VERSION_TEXT,
  });
  if (loaded.type === "errors") {
    for (const error of loaded.errors) {
      logger.error(`the new configuration is refused, the old one is kept: ${error}`);
    }
    return undefined;
  }
  if (loaded.type !== "run") return undefined;
  if (JSON.stringify(loaded.configuration) !== JSON.stringify(configuration)) {
    return loaded.configuration;
  }
  logger.info("the configuration has not changed");
  return undefined;
}

/** As kubelet finds it: the override, else the host name in small letters. */
function nodeNameOf(configuration: Configuration, runtime: Runtime): string {
  return configuration.hostnameOverride || runtime.hostname().trim().toLowerCase();
}

function openLog(configuration: Configuration, runtime: Runtime): Logger {
  return createLogger({
    clock: runtime.clock,
    sink: stderrSink(),
    format: configuration.logFormat,
    verbosity: configuration.verbosity,
    journald: stderrIsJournal(runtime.environment("JOURNAL_STREAM")),
  });
}
