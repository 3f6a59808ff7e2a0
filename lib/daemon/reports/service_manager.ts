/** Reports to systemd when the daemon is ready, and to systemd and the log why it is not. */
import type { Logger } from "../../model/ports/ports.ts";
import { describeProgress } from "../../observe/human.ts";
import {
  type NotifySocket,
  ServiceManager,
  type SystemdEnvironment,
} from "../../observe/systemd.ts";
import { openNotifySocket } from "../../system/socket.ts";
import type { Runtime } from "../../model/ports/runtime.ts";
import type { Parts } from "../parts.ts";

/** Milliseconds until READY=1 without a sync: kubelet, which starts the API server, may wait for it. */
const READY_LIMIT = 10_000;

/** Returns the service manager of this process. Without a socket of systemd, its functions do nothing. */
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

/** Milliseconds without a first sync after which the log has the reason. */
const LONG_WAIT = 30_000;

/** Reports that the service is ready. If the first sync is late, systemd and later the log get the reason. */
export async function announceReady(parts: Parts, firstSync: Promise<void>): Promise<void> {
  const { manager, runtime: { clock }, logger, signal } = parts.options;
  const isSyncedWithin = (milliseconds: number) =>
    Promise.race([firstSync.then(() => true), clock.sleep(milliseconds, signal).then(() => false)]);
  if (!await isSyncedWithin(READY_LIMIT) && !signal.aborted) {
    await manager.report("READY", `no rules are written yet, waiting for ${waitingFor(parts)}`);
    if (!await isSyncedWithin(LONG_WAIT - READY_LIMIT) && !signal.aborted) {
      const why = { seconds: LONG_WAIT / 1000, waitingFor: waitingFor(parts) };
      logger.warn("no rules have been written since the start", why);
      await firstSync;
    }
  }
  if (!signal.aborted) await manager.report("READY", "rules are in the kernel");
}

function waitingFor({ cache: { missing }, loop, opened: { backend } }: Parts): string {
  const { progress } = backend.dataplane;
  if (progress) return `the kernel, which has ${describeProgress(progress)}`;
  // The rules of a state file do not wait for lists.
  return missing.length > 0 && !loop.stale
    ? `the first list of ${missing.join(", ")}`
    : "the kernel";
}
