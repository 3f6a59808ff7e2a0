/**
 * `signpost run`: the daemon, and again with the new configuration whenever a good one is there.
 *
 * @module
 */
import { runDaemon } from "../daemon/start/run.ts";
import { openServiceManager } from "../daemon/reports/service_manager.ts";
import { LocalhostListeners } from "../localhost/listeners.ts";
import { TCP } from "../system/tcp.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { CommandContext } from "./context.ts";
import type { ConfigurationFile } from "./configuration_file.ts";
import { nodeNameOf } from "./node_name.ts";
import { openLog } from "./open_log.ts";
import { nextConfiguration, ReloadRequest } from "./reload.ts";

/** What the daemon is started with. */
export interface RunOptions extends CommandContext {
  readonly argv: readonly string[];
  readonly configuration: Configuration;
  readonly logger: Logger;
  readonly file: ConfigurationFile;
}

/** Milliseconds that the process waits for a transaction at its end: systemd kills it after 15 s. */
const STOP_LIMIT = 10_000;

/**
 * Runs the daemon until the signal aborts. The configuration is read again at each SIGHUP and when its file
 * changes. A good one ends the daemon and starts another; the kernel keeps the rules meanwhile.
 */
export async function run(options: RunOptions): Promise<void> {
  const { runtime, signal, systemd, argv, file } = options;
  const manager = openServiceManager(systemd, options);
  const request = new ReloadRequest();
  options.reload(request.ask);
  const late = Promise.withResolvers<undefined>();
  const stop = () => void runtime.clock.sleep(STOP_LIMIT).then(() => late.resolve(undefined));
  signal.addEventListener("abort", stop, { once: true });
  await using localhost = new LocalhostListeners({ tcp: TCP, clock: runtime.clock });
  let { configuration, logger } = options;
  while (!signal.aborted) {
    const over = new AbortController();
    const parts = { configuration, runtime, logger, manager };
    const either = AbortSignal.any([signal, over.signal]);
    const reading = nextConfiguration({ ...parts, argv, file, request, signal: either });
    const daemon = runDaemon({
      ...parts,
      commandLine: { argv, workingDirectory: runtime.workingDirectory(), file: file.contents },
      nodeName: nodeNameOf(configuration, runtime),
      localhost,
      signal: either,
    });
    const ended = [reading, daemon].map((part) => part.finally(() => over.abort()));
    const next = await Promise.race([Promise.all(ended).then(() => reading), late.promise]);
    if (!next) continue;
    configuration = next;
    logger = openLog(configuration, runtime);
    logger.info("the configuration was read again");
  }
  await manager.stopping();
  logger.info("stopped, the rules stay");
}
