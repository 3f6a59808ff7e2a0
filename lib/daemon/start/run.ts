/** Starts the daemon for `signpost run`. */
import { ProgramWatch } from "../../system/program_watch.ts";
import { Daemon } from "../daemon.ts";
import type { DaemonOptions } from "./options.ts";
import { openBackend } from "../../backend/choose.ts";
import { beTheOnlyDaemon } from "./one_daemon.ts";
import { openSource } from "../objects/source.ts";

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
  const { runtime, logger } = given;
  await beTheOnlyDaemon({ ...given, wait: given.configuration.signpost.wait });
  if (given.signal.aborted) return;
  const programs = new ProgramWatch({ ...runtime, logger });
  const options = { ...given, runtime: { ...runtime, runner: programs } };
  // The kubeconfig is read while nft is asked what the kernel can do.
  const [opened, source] = await Promise.all([openBackend(options), openSource(options)]);
  if (options.signal.aborted) return;
  await new Daemon(options, { ...opened, programs, source }).run();
}
