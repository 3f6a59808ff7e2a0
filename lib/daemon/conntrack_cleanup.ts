/**
 * Stale conntrack entries go after each sync, before the next one.
 *
 * @module
 */
import { ConntrackCleaner } from "../conntrack/conntrack.ts";
import type { DesiredState } from "../model/desired.ts";
import type { Logger } from "../model/ports.ts";
import type { Metrics } from "../observe/metrics/metrics.ts";
import type { SyncOutcome } from "../sync/sync.ts";
import type { Runtime } from "../model/runtime.ts";

/** What the cleanup works with. */
export interface ConntrackCleanupOptions {
  /** What the kernel is held to. */
  readonly state: DesiredState;
  readonly metrics: Metrics;
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** Asks the sync loop for a round, in which what is left is tried again. */
  readonly requestRound: () => void;
  readonly signal: AbortSignal;
}

/** Milliseconds until entries that are left are tried again. */
const PAUSE = 10_000;

/** Follows the outcomes of syncs. */
export class ConntrackCleanup {
  readonly #options: ConntrackCleanupOptions;
  readonly #cleaner: ConntrackCleaner;

  /** @param options see there */
  constructor(options: ConntrackCleanupOptions) {
    this.#options = options;
    const { runner, clock, addresses } = options.runtime;
    const { logger } = options;
    this.#cleaner = new ConntrackCleaner({ runner, clock, logger, localAddresses: addresses });
  }

  /** Deletes what a sync has made stale; a sync that failed is remembered for the next one. */
  async afterSync({ change, done, whole }: SyncOutcome): Promise<void> {
    const { state, metrics, runtime, requestRound, signal } = this.#options;
    const cleaner = this.#cleaner;
    if (whole || !done) cleaner.remember(change, state);
    if (!done) return;
    const { families } = await cleaner.reconcile(whole ? undefined : change, state);
    for (const [family, result] of families) metrics.conntrackReconciled(family, result);
    if (cleaner.unfinished) void runtime.clock.sleep(PAUSE, signal).then(requestRound);
  }
}
