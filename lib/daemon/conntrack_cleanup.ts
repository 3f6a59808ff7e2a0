/**
 * Stale conntrack entries go after each sync, beside the next one: a conntrack that hangs delays no
 * rule.
 *
 * @module
 */
import { ConntrackCleaner } from "../conntrack/conntrack.ts";
import type { Family } from "../model/values/address.ts";
import type { DesiredState, StateChange } from "../model/kernel/desired.ts";
import type { Clock, Logger, ProcessRunner } from "../model/ports/ports.ts";
import type { SyncOutcome } from "../sync/outcome.ts";

/** What the cleanup works with. */
export interface ConntrackCleanupOptions {
  /** What the kernel is held to. */
  readonly state: DesiredState;
  readonly metrics: {
    /** A clean-up of one family is over. */
    conntrackReconciled(family: Family, result: { deleted: number; seconds: number }): void;
  };
  readonly runtime: {
    readonly runner: ProcessRunner;
    readonly clock: Clock;
    addresses(): readonly string[];
  };
  readonly logger: Logger;
  /** Asks the sync loop for a round, in which what is left is tried again. */
  readonly requestRound: () => void;
  readonly signal: AbortSignal;
}

/** Milliseconds until entries that are left are tried again. */
const PAUSE = 10_000;

/** What to look at: the frontends of one step, or all of them. */
type Look = StateChange | "all";

/** Where nothing changed, what is left of earlier clean-ups is looked at. */
const NO_CHANGE: StateChange = { node: undefined, services: new Map() };

/** Follows the outcomes of syncs. One clean-up runs at a time; what comes meanwhile is one more. */
export class ConntrackCleanup {
  readonly #options: ConntrackCleanupOptions;
  readonly #cleaner: ConntrackCleaner;
  #running = false;
  /** Whether a round is going to be asked for. */
  #isWaiting = false;
  /** What to look at when the clean-up that runs is over. */
  #next: Look | undefined;

  /** @param options see there */
  constructor(options: ConntrackCleanupOptions) {
    this.#options = options;
    const { runner, clock, addresses } = options.runtime;
    const { logger } = options;
    this.#cleaner = new ConntrackCleaner({ runner, clock, logger, localAddresses: addresses });
  }

  /**
   * Starts to delete what a sync has made stale, and does not wait for it; a sync that failed is
   * remembered for the next one.
   *
   * @yields where other work can be done
   */
  *following({ change, done, full }: Omit<SyncOutcome, "report">): Generator<undefined, void> {
    if (full || !done || this.#running) {
      yield* this.#cleaner.remembering(change, this.#options.state);
      yield;
    }
    if (!done) return;
    if (!this.#running) void this.#run(full ? "all" : change);
    else this.#next = full || this.#next === "all" ? "all" : NO_CHANGE;
  }

  async #run(first: Look): Promise<void> {
    const { state, metrics, runtime, requestRound, signal } = this.#options;
    this.#running = true;
    try {
      for (let look: Look | undefined = first; look !== undefined; look = this.#next) {
        this.#next = undefined;
        const cleaned = await this.#cleaner.reconcile(look === "all" ? undefined : look, state);
        for (const [family, result] of cleaned) {
          metrics.conntrackReconciled(family, result);
        }
      }
    } finally {
      this.#running = false;
    }
    if (!this.#cleaner.unfinished || this.#isWaiting) return;
    this.#isWaiting = true;
    void runtime.clock.sleep(PAUSE, signal).then(() => {
      this.#isWaiting = false;
      requestRound();
    });
  }
}
