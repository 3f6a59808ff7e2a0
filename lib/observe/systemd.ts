/** Notifies systemd by the protocol of sd_notify(3). */
import { messageOf } from "../model/values/errors.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import { plain } from "../model/values/text.ts";

export interface SystemdEnvironment {
  /** The address for notifications: a path, or `@` and an abstract name; `undefined`: systemd does not want any. */
  readonly notifySocket: string | undefined;
  /** Milliseconds without a watchdog message after which systemd kills us; `undefined`: never. */
  readonly watchdog: number | undefined;
}

interface Variables {
  get(name: string): string | undefined;
  delete(name: string): void;
}

export interface NotifySocket {
  /** @throws if systemd does not receive, or the address is not permitted */
  send(datagram: string): Promise<void>;
  close(): void;
}

/** The longest status, in UTF-16 code units. */
const MAXIMUM_STATUS_LENGTH = 512;

/** Takes systemd's variables out of the environment. WATCHDOG_PID may name another process. */
export function takeSystemdEnvironment(environment: Variables, pid: number): SystemdEnvironment {
  const take = (name: string) => {
    const value = environment.get(name);
    environment.delete(name);
    return value;
  };
  const notifySocket = take("NOTIFY_SOCKET");
  const microseconds = Number(take("WATCHDOG_USEC"));
  const watchdogPid = take("WATCHDOG_PID");
  const isForUs = watchdogPid === undefined || Number(watchdogPid) === pid;
  return {
    notifySocket: notifySocket !== undefined && /^[/@]./.test(notifySocket)
      ? notifySocket
      : undefined,
    watchdog: isForUs && microseconds > 0 ? microseconds / 1_000 : undefined,
  };
}

/** Returns true if systemd started this process with its output in the journal (systemd.exec(5)). */
export function logsToJournal(
  { environment, pid }: { environment(name: string): string | undefined; readonly pid: number },
): boolean {
  return environment("JOURNAL_STREAM") !== undefined &&
    environment("SYSTEMD_EXEC_PID") === `${pid}`;
}

interface ServiceManagerOptions {
  /** `undefined`: systemd did not start this process, so nothing is sent. */
  readonly socket: NotifySocket | undefined;
  readonly watchdog: number | undefined;
  readonly clock: Pick<Clock, "sleep">;
  readonly logger: Logger;
}

/** The service manager that started this process, if one did. */
export class ServiceManager {
  /** The last failure, which was logged. */
  #failure: string | undefined;

  constructor(private readonly options: ServiceManagerOptions) {}

  /** Reports that the service is ready, reloads or stops. @param status the text that `systemctl status` shows */
  report(state: "READY" | "RELOADING" | "STOPPING", status?: string): Promise<void> {
    const text = status && `STATUS=${plain(status.slice(0, MAXIMUM_STATUS_LENGTH))}`;
    return this.#send([`${state}=1`, ...text ? [text] : []]);
  }

  /** Sends a watchdog message twice in each period. @param isAlive must not depend on the API server */
  async feedWatchdog(isAlive: () => boolean, signal: AbortSignal): Promise<void> {
    const { watchdog, clock, socket } = this.options;
    if (watchdog === undefined || !socket) return;
    while (!signal.aborted) {
      if (isAlive()) await this.#send(["WATCHDOG=1"]);
      await clock.sleep(watchdog / 2, signal);
    }
  }

  async #send(lines: readonly string[]): Promise<void> {
    const { socket, logger } = this.options;
    try {
      await socket?.send(lines.join("\n"));
      this.#failure = undefined;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== this.#failure) logger.warn("cannot notify systemd", { error: reason });
      this.#failure = reason;
    }
  }
}
