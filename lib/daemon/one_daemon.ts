/** Allows one daemon in each network namespace. Two daemons would undo each other's rules. */
import { FatalError } from "../model/values/errors.ts";
import type { LockHolder, Runtime } from "../model/ports/runtime.ts";
import { VERSION } from "../model/version.ts";
import type { DaemonOptions } from "./parts.ts";

/** Milliseconds between two attempts to take the lock. */
const PAUSE = 500;

interface OneDaemonOptions extends Pick<DaemonOptions, "manager" | "logger" | "signal"> {
  readonly runtime: Pick<Runtime, "lock" | "pid" | "clock">;
  readonly wait: boolean;
}

/**
 * Takes the lock of the network namespace, or waits for it until the abort. A waiting daemon reports READY to systemd,
 * because kubelet can use the holder's rules. @throws {FatalError} that names the holder, without `wait`
 */
export async function beTheOnlyDaemon(options: OneDaemonOptions): Promise<void> {
  const { runtime, wait, manager, logger, signal } = options;
  const { lock, clock } = runtime;
  const self = lockHolder(runtime);
  const over = new AbortController();
  const stop = AbortSignal.any([signal, over.signal]);
  try {
    if (lock.take(self)) return;
    const who = describeHolder(await lock.holder());
    if (!wait) throw new FatalError(`${who}: stop it, or start this one with --wait`);
    logger.info(`${who}: waiting for its end`);
    await manager.report("READY", `waiting for its end: ${who}`);
    void manager.feedWatchdog(() => true, stop);
    do {
      await clock.sleep(PAUSE, signal);
      if (signal.aborted) return;
    } while (!lock.take(self));
    logger.info("the other signpost has ended; this signpost takes over");
  } catch (error) {
    if (error instanceof FatalError) throw error;
    logger.warn("cannot find out if another signpost runs in this network namespace; continuing", {
      error: String(error),
    });
  } finally {
    over.abort();
  }
}

export function lockHolder({ pid, clock }: Pick<Runtime, "pid" | "clock">): LockHolder {
  return { pid, version: VERSION, since: new Date(clock.now()).toISOString() };
}

export function describeHolder(holder: LockHolder | undefined): string {
  return holder
    ? `another signpost runs in this network namespace (pid ${holder.pid}, version ${holder.version}, since ${holder.since})`
    : "another process holds signpost's lock in this network namespace (ss -xlp shows which has @signpost)";
}
