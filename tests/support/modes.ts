/** Backends for tests that need no kernel. */
import { wholeInput } from "./whole_input.ts";
import type { Backend, BackendOptions } from "../../lib/backend/backend.ts";
import { likelyBackend } from "../../lib/backend/choose.ts";
import { type Mode, MODES } from "../../lib/model/configuration.ts";
import type { ModeTraits } from "../../lib/model/kernel/traits.ts";
import type { ProcessRunner } from "../../lib/model/ports/ports.ts";
import { ManualClock, MemoryLogger } from "./clock_and_log.ts";
import { configuration } from "./configuration.ts";

export { type Mode, MODES };

/** A runner whose every program reads its input, succeeds and says nothing. */
export const SILENT_RUNNER: ProcessRunner = {
  run: async (_argv, stdin = "") => {
    await wholeInput(stdin);
    return { code: 0, stdout: "", stderr: "" };
  },
};

/** The backend of a mode on a node where every program succeeds and says nothing. */
export function backendOf(mode: Mode, changes: Partial<BackendOptions> = {}): Backend {
  return likelyBackend({
    configuration: configuration({ mode }),
    runtime: {
      runner: SILENT_RUNNER,
      streamer: { async *lines() {} },
      clock: new ManualClock(),
      hasIpv6: () => true,
      pid: 4711,
      osRelease: () => "6.12.0",
    },
    logger: new MemoryLogger(),
    ...changes,
  });
}

/** The facts of a mode. */
export function traitsOf(mode: Mode): ModeTraits {
  return backendOf(mode).traits;
}
