/**
 * `signpost run`: the daemon, and again with the new configuration whenever a good one is there.
 *
 * @module
 */
import { runDaemon } from "../daemon/start/run.ts";
import { openServiceManager } from "../daemon/reports/service_manager.ts";
import { LocalhostListeners } from "../localhost/listeners.ts";
import { TCP } from "../system/tcp.ts";
import type { Configuration } from "../model/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { CommandContext } from "./context.ts";
import type { ConfigurationFile } from "./configuration_file.ts";
import { nodeNameOf } from "./node_name.ts";
import { openLog } from "./open_log.ts";
import { Reload } from "./reload.ts";

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
 * Runs the daemon until the signal aborts. The configuration is read again at each SIGHUP and when
 * its file changes: a good one is taken over, a bad one refused.
 */
export async function run(options: RunOptions): Promise<void> {
  const { runtime, signal, systemd, reload, argv, file } = options;
  const manager = openServiceManager(systemd, options);
  await using localhost = new LocalhostListeners({ tcp: TCP, clock: runtime.clock });
  let { configuration, logger } = options;
  while (!signal.aborted) {
    const changed = new AbortController();
    let next: Configuration | undefined;
    const reloads = new Reload({
      ...options,
      configuration,
      logger,
      manager,
      take: (wanted) => {
        next = wanted;
        changed.abort();
      },
      signal: changed.signal,
    });
    const readAgain = () => reloads.readAgain();
    const stopListening = reload(readAgain);
    const late = Promise.withResolvers<void>();
    const stop = () => {
      changed.abort();
      void runtime.clock.sleep(STOP_LIMIT).then(late.resolve);
    };
    signal.addEventListener("abort", stop, { once: true });
    const fileChanged = async () => {
      logger.info("the configuration file has changed");
      await readAgain();
    };
    const watching = file.watch(fileChanged, { clock: runtime.clock, signal: changed.signal });
    const running = runDaemon({
      configuration,
      commandLine: { argv, workingDirectory: runtime.workingDirectory(), file: file.contents },
      nodeName: nodeNameOf(configuration, runtime),
      runtime,
      logger,
      manager,
      localhost,
      signal: changed.signal,
    }).finally(() => {
      stopListening();
      signal.removeEventListener("abort", stop);
      changed.abort();
    });
    await Promise.race([running, late.promise]);
    await watching;
    if (next) {
      configuration = next;
      logger = openLog(configuration, runtime);
      logger.info("the configuration was read again");
    }
  }
  await manager.stopping();
  logger.info("stopped, the rules stay");
}
