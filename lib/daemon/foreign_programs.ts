/**
 * What the daemon does about other programs: repairs what they change, takes over from other proxies.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import type { Configuration } from "../config/configuration.ts";
import type { DesiredState } from "../model/kernel/desired.ts";
import type { Drift } from "../model/kernel/differences.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import { type BackoffLimits, delayAfter } from "../model/values/timing.ts";

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

/** Gives repairs what they need. */
export interface DriftRepairsOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Counts a repair and asks for it. */
  readonly repair: () => void;
  readonly signal: AbortSignal;
}

/** Repairs in a row that are made at once. */
const AT_ONCE = 5;
/** Milliseconds between those that follow. */
const DELAYS: BackoffLimits = { first: 1_000, longest: 30_000 };
/** Milliseconds without drift after which the next one is the first of its row. */
const QUIET = 30_000;

/** Two programs that each undo what the other does must not take all of the processor. */
export class DriftRepairs {
  #inARow = 0;
  #last = -Infinity;
  #isWaiting = false;

  /** @param options whom to ask for a repair, and when to stop */
  constructor(private readonly options: DriftRepairsOptions) {}

  /** Takes what was noticed. Never rejects. */
  async report(drift: Drift): Promise<void> {
    if (this.#isWaiting) return;
    const { clock, logger, repair, signal } = this.options;
    if (clock.monotonic() - this.#last > QUIET) this.#inARow = 0;
    const delay = this.#delay();
    logger.warn(message(delay), {
      ...drift.missing !== "" && { missing: drift.missing },
      ...drift.added !== "" && { added: drift.added },
      ...drift.by !== "" && { by: drift.by },
    });
    if (delay > 0) {
      this.#isWaiting = true;
      await clock.sleep(Math.max(0, this.#last + delay - clock.monotonic()), signal);
      this.#isWaiting = false;
      if (signal.aborted) return;
    }
    this.#inARow++;
    this.#last = clock.monotonic();
    repair();
  }

  #delay(): number {
    const times = this.#inARow - AT_ONCE;
    return times < 0 ? 0 : delayAfter(DELAYS, times);
  }
}

function message(delay: number): string {
  const what = "another program has changed our rules";
  return delay === 0
    ? `${what}; repairing what differs`
    : `${what} again and again; repairs wait ${delay / 1000} s: find that program and stop it`;
}
