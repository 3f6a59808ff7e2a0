/**
 * `signpost run`: holds the kernel to the state of the cluster until it is told to stop.
 *
 * @module
 */
import { ProgramWatch } from "../../observe/program_watch.ts";
import { Daemon } from "../daemon.ts";
import type { DaemonOptions } from "./options.ts";
import { openBackend } from "../../backend/choose.ts";
import { VERSION } from "../../model/version.ts";
import { Mailbox } from "./mailbox.ts";
import { beTheOnlyDaemon } from "./one_daemon.ts";
import { openSource, type SourceOptions } from "../objects/source.ts";

/**
 * Runs until the signal aborts. The rules stay in the kernel.
 *
 * @throws {FatalError} where it cannot begin, or cannot go on
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const stop = new AbortController();
  const end = () => stop.abort();
  options.signal.addEventListener("abort", end, { once: true });
  if (options.signal.aborted) end();
  try {
    await start({ ...options, signal: stop.signal });
  } finally {
    end();
    options.signal.removeEventListener("abort", end);
  }
}

/**
 * Milliseconds for the first requests to be sent, before nft is asked what the kernel can do: what
 * that computes would hold them up.
 */
const HEAD_START = 20;

/** The lists are asked for first: they come in while nft is asked what the kernel can do. */
async function start(given: DaemonOptions): Promise<void> {
  const { runtime, logger } = given;
  await beTheOnlyDaemon({
    lock: runtime.lock,
    self: {
      pid: runtime.pid,
      version: VERSION,
      since: new Date(runtime.clock.now()).toISOString(),
    },
    wait: given.configuration.signpost.wait,
    manager: given.manager,
    logger,
    signal: given.signal,
  });
  if (given.signal.aborted) return;
  const programs = new ProgramWatch({ ...runtime, logger });
  const options = { ...given, runtime: { ...runtime, runner: programs } };
  const mailbox = new Mailbox<Daemon>();
  const source = await openSource({ ...options, ...reportsTo(mailbox) });
  const delivering = source.run();
  // Its failure counts where `run` waits for it.
  delivering.catch(() => {});
  if (source.api) await options.runtime.clock.sleep(HEAD_START, options.signal);
  const opened = await openBackend(options);
  if (options.signal.aborted) return;
  const daemon = new Daemon(options, { ...opened, programs, api: source.api });
  mailbox.open(daemon);
  await daemon.run(delivering);
}

/** What the source tells, as messages to the daemon. */
function reportsTo(mailbox: Mailbox<Daemon>): Pick<SourceOptions, "observer" | "sink"> {
  return {
    observer: {
      watchChanged: (status) => mailbox.send(({ observation }) => observation.watchChanged(status)),
      requestDone: (result) => mailbox.send(({ observation }) => observation.requestDone(result)),
      responseRead: (read) => mailbox.send(({ observation }) => observation.responseRead(read)),
    },
    sink: (event) => mailbox.send((daemon) => daemon.take(event)),
  };
}
