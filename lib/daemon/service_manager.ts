/**
 * Keeps systemd informed: ready, status, signs of life.
 *
 * @module
 */
import type { Logger } from "../model/ports.ts";
import { type NotifySocket, ServiceManager, type SystemdEnvironment } from "../observe/systemd.ts";
import { openNotifySocket } from "../system/systemd_socket.ts";
import type { Runtime } from "../model/runtime.ts";

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
