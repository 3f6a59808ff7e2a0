/** Tells systemd when the daemon is ready, and the log why it is not. */
import type { Progress } from "../../model/kernel/dataplane.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { describeProgress } from "../../observe/human.ts";
import {
  type NotifySocket,
  ServiceManager,
  type SystemdEnvironment,
} from "../../observe/systemd.ts";
import { openNotifySocket } from "../../system/socket.ts";
import type { Runtime } from "../../model/ports/runtime.ts";

/** Milliseconds until READY=1 without a sync: kubelet may wait for it, and bring the API server up. */
const READY_LIMIT = 10_000;

/** Returns the service manager of this process. Without one, it does nothing. */
export function openServiceManager(
  { notifySocket, watchdog }: SystemdEnvironment,
  { runtime, logger }: { readonly runtime: Runtime; readonly logger: Logger },
): ServiceManager {
  let socket: NotifySocket | undefined;
  try {
    socket = notifySocket === undefined ? undefined : openNotifySocket(notifySocket);
  } catch (error) {
    logger.warn("systemd cannot be notified", { error: String(error) });
  }
  return new ServiceManager({ socket, watchdog, clock: runtime.clock, logger });
}

/** Milliseconds without a first sync after which the log says the reason. */
const LONG_WAIT = 30_000;

export interface Waiting {
  readonly clock: Pick<Clock, "sleep">;
  readonly firstSync: Promise<void>;
  readonly waitingFor: () => string;
  readonly signal: AbortSignal;
}

/** Names what a first sync waits for. */
export function waitingFor({ missing, isStale, progress }: {
  /** The rules are those of the state file: no list is needed for them. */
  readonly isStale: boolean;
  /** The kinds of which no full state has come in. */
  readonly missing: readonly string[];
  readonly progress: Progress | undefined;
}): string {
  if (progress) return `the kernel, which has ${describeProgress(progress)}`;
  return missing.length > 0 && !isStale ? `the first list of ${missing.join(", ")}` : "the kernel";
}

export async function tellOfWaiting(
  { logger, ...waiting }: Waiting & { readonly logger: Logger },
): Promise<void> {
  if (await isSyncedWithin(LONG_WAIT, waiting) || waiting.signal.aborted) return;
  logger.warn("no rules have been written since the start", {
    seconds: LONG_WAIT / 1000,
    waitingFor: waiting.waitingFor(),
  });
}

/** Says that the service is ready. If the first sync is late, it says what that waits for. */
export async function announceReady(manager: ServiceManager, waiting: Waiting): Promise<void> {
  const { firstSync, signal } = waiting;
  if (!await isSyncedWithin(READY_LIMIT, waiting)) {
    if (signal.aborted) return;
    await manager.ready(`no rules are written yet, waiting for ${waiting.waitingFor()}`);
    await firstSync;
  }
  if (!signal.aborted) await manager.ready("rules are in the kernel");
}

async function isSyncedWithin(
  milliseconds: number,
  { clock, firstSync, signal }: Waiting,
): Promise<boolean> {
  const isLate = clock.sleep(milliseconds, signal).then(() => false);
  return await Promise.race([firstSync.then(() => true), isLate]);
}
