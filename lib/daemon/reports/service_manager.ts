/**
 * Keeps systemd informed: ready, status, signs of life.
 *
 * @module
 */
import type { Clock, Logger } from "../../model/ports/ports.ts";
import {
  type NotifySocket,
  ServiceManager,
  type SystemdEnvironment,
} from "../../observe/systemd.ts";
import { openNotifySocket } from "../../system/systemd_socket.ts";
import type { Runtime } from "../../model/ports/runtime.ts";

/**
 * READY=1 comes after the first sync, or after so many milliseconds without one: units that wait
 * for signpost (kubelet) may be what brings the API server up.
 */
const READY_LIMIT = 10_000;

/** The service manager of this process; one that does nothing where there is none. */
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

/** Milliseconds without a first sync after which the log says what is waited for. */
const LONG_WAIT = 30_000;

/** Says, once, what the first sync has been waiting for. */
export async function tellOfWaiting(
  { clock, logger, firstSync, missing, signal }: {
    readonly clock: Pick<Clock, "sleep">;
    readonly logger: Logger;
    readonly firstSync: Promise<void>;
    /** The kinds of which no full state has come in. */
    readonly missing: () => readonly string[];
    readonly signal: AbortSignal;
  },
): Promise<void> {
  let isSynced = false;
  void firstSync.then(() => isSynced = true);
  await Promise.race([firstSync, clock.sleep(LONG_WAIT, signal)]);
  if (isSynced || signal.aborted) return;
  const kinds = missing();
  const waitingFor = kinds.length > 0 ? `the first list of ${kinds.join(", ")}` : "the kernel";
  logger.warn("no rules have been written since the start", {
    seconds: LONG_WAIT / 1000,
    waitingFor,
  });
}

/** Says that the service is ready, once. */
export async function announceReady(
  manager: ServiceManager,
  options: {
    readonly runtime: Runtime;
    /** Resolves after the first sync. */
    readonly firstSync: Promise<void>;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { runtime, firstSync, signal } = options;
  const waiting = runtime.clock.sleep(READY_LIMIT, signal).then(() =>
    "waiting for the first full state"
  );
  const status = await Promise.race([firstSync.then(() => "rules are in the kernel"), waiting]);
  if (!signal.aborted) await manager.ready(status);
}
