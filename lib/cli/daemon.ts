/**
 * `signpost run`: holds the kernel to the state of the cluster until it is told to stop.
 *
 * @module
 */
import { ObjectCache } from "../cache/cache.ts";
import { Desired } from "../desired/state.ts";
import type { Configuration } from "../model/configuration.ts";
import type { Logger } from "../model/ports.ts";
import { SyncLoop } from "../sync/sync.ts";
import type { Runtime } from "../system/runtime.ts";
import { openNftables } from "./dataplane.ts";
import { runSource } from "./source.ts";

/** What the daemon needs. */
export interface DaemonOptions {
  readonly configuration: Configuration;
  readonly nodeName: string;
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** Aborts when the process is told to stop. */
  readonly signal: AbortSignal;
}

/**
 * Runs until the signal aborts. The rules stay in the kernel.
 *
 * @throws {FatalError} where it cannot begin, or cannot go on
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { configuration, nodeName, runtime, logger } = options;
  const mode = configuration.mode === "iptables" ? "iptables" : "nftables";
  const dataplane = await openNftables(configuration, runtime.runner);
  const loop = new SyncLoop({
    cache: new ObjectCache(),
    desired: new Desired({ configuration, mode, nodeName }),
    dataplane,
    clock: runtime.clock,
    logger,
    observer: {},
    minSyncPeriod: configuration[mode].minSyncPeriod,
    fullSyncPeriod: configuration.signpost.fullSyncPeriod,
  });
  const stop = new AbortController();
  const end = () => stop.abort();
  options.signal.addEventListener("abort", end, { once: true });
  try {
    await Promise.race([
      loop.run(stop.signal),
      runSource({
        ...options,
        observer: {},
        signal: stop.signal,
        sink: (event) => loop.handle(event),
      }).then(() => aborted(stop.signal)),
    ]);
  } finally {
    end();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) =>
    signal.addEventListener("abort", () => resolve(), { once: true })
  );
}
