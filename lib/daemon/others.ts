/**
 * What the daemon does about other programs: repairs what they change, takes over from other proxies.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import type { Configuration } from "../model/configuration.ts";
import type { DesiredState } from "../model/kernel/desired.ts";
import type { Drift } from "../model/kernel/differences.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import { DriftRepairs } from "./drift_repairs.ts";

/** What it takes to deal with others. */
export interface OthersOptions {
  readonly backend: Pick<Backend, "traits" | "foreignRules" | "watchDrift">;
  readonly configuration: Configuration;
  /** The state that the kernel is held to. */
  readonly desired: DesiredState;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Counts that another program has changed our rules. */
  readonly drifted: () => void;
  /** Asks for a full sync. */
  readonly requestFull: (reason: string) => void;
  /** Called after each look for another proxy. */
  readonly looked: () => void;
  /** Asks that what differs be put back. */
  readonly requestRepair: () => void;
  readonly signal: AbortSignal;
}

/** Sync periods between two looks for rules of other proxies. */
const CHECK_OTHERS = 4;

/** Begins when our rules are in the kernel, and ends when the signal aborts. */
export function repairDrift(options: OthersOptions): Promise<void> {
  const { backend, desired, drifted, requestFull, requestRepair, signal } = options;
  const repair = () => {
    drifted();
    requestRepair();
  };
  const repairs = new DriftRepairs({ ...options, repair });
  const onDrift = (drift: Drift) => void repairs.report(drift);
  return backend.watchDrift({ desired, onDrift, onChange: requestFull, signal });
}

/**
 * Others' rules go when ours are there; then it is watched whether they come back. Ends when the signal
 * aborts and nothing more is written.
 */
export async function takeOver(options: OthersOptions): Promise<void> {
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
