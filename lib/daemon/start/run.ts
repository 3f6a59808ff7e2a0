/**
 * `signpost run`: holds the kernel to the state of the cluster until it is told to stop.
 *
 * @module
 */
import { ProgramWatch } from "../../system/program_watch.ts";
import { Daemon } from "../daemon.ts";
import type { DaemonOptions } from "./options.ts";
import { openBackend } from "../../backend/choose.ts";
import { beTheOnlyDaemon, lockHolder } from "./one_daemon.ts";
import { openSource } from "../objects/source.ts";

/**
 * Runs until the signal aborts. The rules stay in the kernel.
 *
 * @throws {FatalError} where it cannot begin, or cannot go on
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const over = new AbortController();
  try {
    await start({ ...options, signal: AbortSignal.any([options.signal, over.signal]) });
  } finally {
    over.abort();
  }
}

async function start(given: DaemonOptions): Promise<void> {
  const { runtime, logger } = given;
  await beTheOnlyDaemon({
    lock: runtime.lock,
    self: lockHolder(runtime),
    wait: given.configuration.signpost.wait,
    manager: given.manager,
    clock: runtime.clock,
    logger,
    signal: given.signal,
  });
  if (given.signal.aborted) return;
  const programs = new ProgramWatch({ ...runtime, logger });
  const options = { ...given, runtime: { ...runtime, runner: programs } };
  // While nft is asked what the kernel can do, what leads to the API server is read.
  const [opened, source] = await Promise.all([
    openBackend(options),
    openSource({
      ...options,
      observer: {
        watchChanged: (status) => daemon.observation.watchChanged(status),
        requestDone: (result) => daemon.observation.requestDone(result),
        responseRead: (read) => daemon.observation.responseRead(read),
      },
      sink: (event) => daemon.take(event),
      known: (kind, key) => daemon.known(kind, key),
    }),
  ]);
  if (options.signal.aborted) return;
  const daemon: Daemon = new Daemon(options, { ...opened, programs, api: source.api });
  await daemon.run(() => source.run());
}
