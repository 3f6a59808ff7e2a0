/**
 * `signpost run`: the daemon, and again with the new configuration whenever a good one is there.
 *
 * @module
 */
import { loadConfiguration } from "../config/load.ts";
import { runDaemon } from "../daemon/start/run.ts";
import { openServiceManager } from "../daemon/reports/service_manager.ts";
import { findApiServer } from "../daemon/objects/source.ts";
import type { Configuration } from "../model/configuration.ts";
import { FatalError } from "../model/values/fatal.ts";
import type { Logger } from "../model/ports/ports.ts";
import { VERSION_TEXT } from "../model/version.ts";
import type { CommandContext } from "./context.ts";
import type { ConfigurationFile } from "./configuration_file.ts";
import { nodeNameOf } from "./node_name.ts";
import { openLog } from "./open_log.ts";

/** What the daemon is started with. */
export interface RunOptions extends CommandContext {
  readonly argv: readonly string[];
  readonly configuration: Configuration;
  readonly logger: Logger;
  readonly file: ConfigurationFile;
}

/**
 * Runs the daemon until the signal aborts. The configuration is read again at each SIGHUP and when
 * its file changes: a good one is taken over, a bad one refused.
 */
export async function run(options: RunOptions): Promise<void> {
  const { runtime, signal, systemd, reload, argv, file } = options;
  const manager = openServiceManager(systemd, options);
  let { configuration, logger } = options;
  while (!signal.aborted) {
    const changed = new AbortController();
    let next: Configuration | undefined;
    const readAgain = async () => {
      await manager.reloading();
      next = await reloadConfiguration(argv, { file, logger, configuration, runtime });
      if (next) changed.abort();
      else await manager.reloaded();
    };
    const stopListening = reload(readAgain);
    const stop = () => changed.abort();
    signal.addEventListener("abort", stop, { once: true });
    const fileChanged = async () => {
      logger.info("the configuration file has changed");
      await readAgain();
    };
    const watching = file.watch(fileChanged, { clock: runtime.clock, signal: changed.signal });
    await runDaemon({
      configuration,
      commandLine: { argv, workingDirectory: runtime.workingDirectory(), file: file.contents },
      nodeName: nodeNameOf(configuration, runtime),
      runtime,
      logger,
      manager,
      signal: changed.signal,
    }).finally(() => {
      stopListening();
      signal.removeEventListener("abort", stop);
      changed.abort();
    });
    await watching;
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
  { file, logger, configuration, runtime }: Pick<
    RunOptions,
    "file" | "logger" | "configuration" | "runtime"
  >,
): Promise<Configuration | undefined> {
  const refuse = (error: string) =>
    logger.error(`the new configuration is refused, the old one is kept: ${error}`);
  const loaded = await loadConfiguration(argv, { readFile: file.read, version: VERSION_TEXT });
  if (loaded.type === "errors") {
    for (const error of loaded.errors) refuse(error);
    return undefined;
  }
  if (loaded.type !== "run") return undefined;
  for (const warning of loaded.warnings) logger.warn(warning);
  if (JSON.stringify(loaded.configuration) === JSON.stringify(configuration)) {
    logger.info("the configuration has not changed");
    return undefined;
  }
  const problem = await sourceProblem(loaded.configuration, runtime);
  if (problem === undefined) return loaded.configuration;
  refuse(problem);
  return undefined;
}

/** Why a start with this configuration would end the process: there is no going back then. */
async function sourceProblem(
  configuration: Configuration,
  runtime: RunOptions["runtime"],
): Promise<string | undefined> {
  if (configuration.signpost.manifests.length > 0) return undefined;
  try {
    const server = await findApiServer({ configuration, runtime, observer: {} });
    server.close();
    return undefined;
  } catch (error) {
    if (error instanceof FatalError) return error.message;
    throw error;
  }
}
