/**
 * Repairs of rules that another program changes: at once, and later and later where it goes on.
 *
 * @module
 */
import { type BackoffLimits, delayAfter } from "../model/values/timing.ts";
import type { Drift } from "../model/kernel/differences.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";

/** What repairs work with. */
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
    ? `${what}; putting back what differs`
    : `${what} again and again; they are put back ${
      delay / 1000
    } s after the last time: find that program and stop it`;
}
