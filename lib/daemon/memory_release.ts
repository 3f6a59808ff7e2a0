/**
 * Gives memory back after large scripts.
 *
 * @module
 */
import type { Script } from "../model/kernel/dataplane.ts";
import type { Runtime } from "../model/ports/runtime.ts";

/** Characters of a partial script that is worth a tidy-up of the memory, as every full one is. */
const LARGE_SCRIPT = 1_000_000;

/** Milliseconds after such a script: the syncs that follow at once come first. */
const RELEASE_DELAY = 1_000;

/**
 * A large script leaves several times its size behind, and so does the start of the process: V8 would
 * keep it for the next one. In a large cluster it does, up to `--heap-growing-percent`: to give it
 * back would block the event loop.
 */
export function releaseMemoryAfter(
  { kind, bytes }: Pick<Script, "kind" | "bytes">,
  { runtime, signal }: {
    readonly runtime: Pick<Runtime, "clock" | "releaseMemory">;
    readonly signal: AbortSignal;
  },
): void {
  if (kind !== "full" && bytes <= LARGE_SCRIPT) return;
  void runtime.clock.sleep(RELEASE_DELAY, signal).then(() => runtime.releaseMemory());
}
