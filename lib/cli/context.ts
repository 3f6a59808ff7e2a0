/**
 * What a command works with.
 *
 * @module
 */
import type { Runtime } from "../model/ports/runtime.ts";
import type { SystemdEnvironment } from "../observe/systemd.ts";

/** What a command works with. */
export interface CommandContext {
  readonly runtime: Runtime;
  /** Aborts when the process is told to stop. */
  readonly signal: AbortSignal;
  /** What systemd told this process. */
  readonly systemd: SystemdEnvironment;
  /** Calls back at each SIGHUP. */
  readonly reload: (callback: () => void) => void;
}
