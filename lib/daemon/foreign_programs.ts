/** Takes over from other proxies while the daemon runs. */
import type { Backend } from "../backend/backend.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Clock } from "../model/ports/ports.ts";

/** The parts of a take-over. */
interface TakeOverOptions {
  readonly backend: Pick<Backend, "traits" | "foreignRules">;
  readonly configuration: Configuration;
  readonly clock: Clock;
  /** Asks for a full sync. */
  readonly requestFull: (reason: string) => void;
  /** Called after each look for another proxy. */
  readonly looked: () => void;
  readonly signal: AbortSignal;
}

/** Sync periods between two looks for rules of other proxies. */
const CHECK_OTHERS = 4;

/**
 * Removes other proxies' rules once ours are written, and looks again and again if they come back. Ends
 * when the signal aborts and nothing more is written.
 */
export async function takeOver(options: TakeOverOptions): Promise<void> {
  const { backend: { foreignRules, traits }, configuration, clock, requestFull, looked, signal } =
    options;
  await foreignRules.finish();
  // Beside the rest: open connections may keep it for long.
  let following = foreignRules.follow(signal);
  while (!signal.aborted) {
    await clock.sleep(configuration[traits.section].syncPeriod * CHECK_OTHERS, signal);
    if (signal.aborted) break;
    if (await foreignRules.check()) requestFull("kube-proxy has gone");
    looked();
    following = foreignRules.follow(signal);
  }
  await following;
}
