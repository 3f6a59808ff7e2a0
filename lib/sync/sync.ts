/**
 * The sync loop: takes changes in, works out the desired state, and holds the kernel to it.
 *
 * @module
 */
import type { Dirty, ObjectCache } from "../cache/cache.ts";
import type { Desired, Step } from "../policy/state.ts";
import { ApplyError, type ApplyFailure, type Dataplane, type Script } from "../model/dataplane.ts";
import type { StateChange } from "../model/desired.ts";
import type { ObjectEvent, Omission } from "../model/events.ts";
import type { Clock, Logger } from "../model/ports.ts";
import { type StepObserver, StepReports } from "./step_reports.ts";
import { Wakeup } from "./wakeup.ts";

/** What a sync did. */
export interface SyncReport {
  readonly script: Script;
  /** Seconds from the start of the computation until the kernel had it. */
  readonly seconds: number;
  /** `namespace/name` of the Services that the step was about. */
  readonly step: Step;
}

/** Learns what the loop does, for metrics, health and Events; does nothing. Every member may be left out. */
export interface SyncObserver extends StepObserver {
  /** Something waits for a sync from now on. */
  queued?(): void;
  /** A script was applied. */
  synced?(report: SyncReport): void;
  /** A script was refused. */
  failed?(failure: { readonly kind: Script["kind"]; readonly error: ApplyError }): void;
  /** A part of an object cannot be used and is left out; each state of it is reported once. */
  omitted?(omission: Omission): void;
}

/** How a try to sync ended. */
export interface SyncOutcome {
  /** What the sync was about. */
  readonly change: StateChange;
  /** The kernel has it. */
  readonly done: boolean;
  /** The kernel may have held something else before: at a start, after failures and drift. */
  readonly whole: boolean;
  /** What was applied; `undefined`: the kernel did not take it. */
  readonly report: SyncReport | undefined;
}

/** Something that has to be done after a try to sync. Must not reject. */
export type SyncStep = (outcome: SyncOutcome) => Promise<void> | void;

/** What the loop works with. */
export interface SyncOptions {
  readonly cache: ObjectCache;
  readonly desired: Desired;
  readonly dataplane: Dataplane;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer: SyncObserver;
  /** Milliseconds that changes are gathered for. */
  readonly minSyncPeriod: number;
  /** Milliseconds between replacements of everything. */
  readonly fullSyncPeriod: number;
  /** What has to be done after a try to sync and before the next one, in this order. */
  readonly afterSync: readonly SyncStep[];
}

/** Between repairs, so that a program that keeps on deleting does not get all of the processor. */
const URGENT_PAUSE = 100;
const FIRST_BACKOFF = 1_000;
const MAX_BACKOFF = 30_000;

/** Where everything is written again as it was. */
const NO_STEP: Step = {
  change: { node: undefined, services: new Map() },
  conflicts: [],
  unsupported: [],
  overLimit: [],
};

/** Owns what was applied. One sync runs at a time; what comes meanwhile waits in the cache, merged. */
export class SyncLoop {
  readonly #options: SyncOptions;
  readonly #wakeup: Wakeup;
  readonly #reports: StepReports;
  #fullReason: string | undefined = "start";
  /** Monotonic time at which everything is written anew though nothing changed; after a first full sync. */
  #nextFull = Infinity;
  #lastEnd = -Infinity;
  #failures = 0;
  /** The state of before the start, while the sources have not delivered. */
  #seed: ObjectCache | undefined;
  #roundWanted = false;
  /** Monotonic time at which the start, or the round at hand, began. */
  #busySince: number | undefined;

  /** @param options everything that the loop works with */
  constructor(options: SyncOptions) {
    this.#options = options;
    this.#reports = new StepReports(options);
    this.#busySince = options.clock.monotonic();
    this.#wakeup = new Wakeup(options.clock);
  }

  /** Takes an event of a source in. */
  handle(event: ObjectEvent): void {
    const { cache, observer, logger } = this.#options;
    for (const refusal of cache.apply(event)) this.#reports.refuse(refusal);
    for (const omission of cache.takeOmissions()) {
      logger.warn("a part of the object is left out, the rest of it counts", { ...omission });
      observer.omitted?.(omission);
    }
    if (!this.#hasWork()) return;
    observer.queued?.();
    this.#wakeup.wake();
  }

  /** Asks for a replacement of everything, without waiting for the min sync period. */
  requestFull(reason: string): void {
    this.#fullReason ??= reason;
    this.#options.observer.queued?.();
    this.#wakeup.wake();
  }

  /** Asks for a round of the loop though nothing has changed, for the sake of `afterSync`. */
  requestRound(): void {
    this.#roundWanted = true;
    this.#wakeup.wake();
  }

  /**
   * Applies a state of before the start, so that the node has rules while the sources are silent.
   * What the sources deliver then is a step from there.
   *
   * @returns whether the kernel has it
   */
  async seed(objects: ObjectCache): Promise<boolean> {
    const { cache, desired, clock } = this.#options;
    cache.remember(objects.node);
    const step = desired.update(objects, objects.takeDirty());
    this.#reports.report(step);
    const started = clock.monotonic();
    const report = await this.#applyFull({ step, started, reason: "state file" });
    this.#seed = objects;
    return await this.#follow({ change: step.change, whole: true, report });
  }

  /**
   * Milliseconds that the round at hand has taken so far, `afterSync` included, or the time from the
   * start until `run`; 0 while the loop waits for changes.
   */
  get busy(): number {
    return this.#busySince === undefined ? 0 : this.#options.clock.monotonic() - this.#busySince;
  }

  /** Whether the rules are of a state from before the start. */
  get stale(): boolean {
    return this.#seed !== undefined;
  }

  /** Runs until the signal aborts. The rules stay in the kernel. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, minSyncPeriod } = this.#options;
    signal.addEventListener("abort", () => this.#wakeup.wake(), { once: true });
    this.#busySince = undefined;
    while (!signal.aborted) {
      if (this.#hasWork()) {
        const due = this.#lastEnd + this.#pause(minSyncPeriod);
        await clock.sleep(Math.max(0, due - clock.monotonic()), signal);
        if (!signal.aborted) await this.#round();
      } else {
        await this.#wakeup.wait(Math.max(0, this.#nextFull - clock.monotonic()));
        if (clock.monotonic() >= this.#nextFull) this.#fullReason ??= "full sync period";
      }
    }
  }

  async #round(): Promise<void> {
    this.#busySince = this.#options.clock.monotonic();
    try {
      await this.syncOnce();
    } finally {
      this.#busySince = undefined;
    }
  }

  /** Without a complete cache there is nothing to apply, but a state from before the start to repair. */
  #hasWork(): boolean {
    const { cache } = this.#options;
    if (!cache.complete && this.#seed === undefined) return false;
    return this.#fullReason !== undefined || this.#roundWanted || cache.complete && cache.isDirty;
  }

  /**
   * Brings the kernel to the state of the cache.
   *
   * @returns whether the kernel has it now
   */
  async syncOnce(): Promise<boolean> {
    const { cache, desired, dataplane, clock } = this.#options;
    const started = clock.monotonic();
    this.#roundWanted = false;
    const step = cache.complete
      ? desired.update(cache, this.#takeDirty())
      : this.#seed
      ? desired.update(this.#seed, this.#seed.takeDirty())
      : NO_STEP;
    this.#reports.report(step);
    const partial = this.#fullReason ? undefined : dataplane.partial(step.change, desired);
    const whole = this.#fullReason !== undefined;
    const reason = this.#fullReason ??
      (partial ? "the partial sync failed" : "the node changed, or very much");
    const result = partial && await this.#apply(partial, { step, started });
    // A program that hangs or cannot be started is not asked again at once.
    if (result === "program-failed") this.#fullReason = "the last sync failed";
    const report = typeof result === "object"
      ? result
      : result === "program-failed"
      ? undefined
      : await this.#applyFull({ step, started, reason });
    this.#failures = report ? 0 : this.#failures + 1;
    this.#lastEnd = clock.monotonic();
    return await this.#follow({ change: step.change, whole, report });
  }

  /** Takes the steps that follow a try. @returns whether the kernel has it */
  async #follow(outcome: Omit<SyncOutcome, "done">): Promise<boolean> {
    const done = outcome.report !== undefined;
    for (const step of this.#options.afterSync) await step({ ...outcome, done });
    return done;
  }

  /** After a state from before the start, everything that it had may have changed. */
  #takeDirty(): Dirty {
    const { cache, desired } = this.#options;
    const dirty = cache.takeDirty();
    if (!this.#seed) return dirty;
    this.#seed = undefined;
    return { services: new Set([...dirty.services, ...desired.services.keys()]), node: true };
  }

  async #applyFull(
    { step, started, reason }: {
      readonly step: Step;
      readonly started: number;
      readonly reason: string;
    },
  ): Promise<SyncReport | undefined> {
    const { desired, dataplane, clock, logger } = this.#options;
    this.#fullReason = undefined;
    const result = await this.#apply(dataplane.full(desired), { step, started });
    if (typeof result === "object") {
      this.#nextFull = clock.monotonic() + this.#options.fullSyncPeriod;
      logger.debug(2, "full sync", { reason });
      return result;
    }
    this.#fullReason = "the last sync failed";
    return undefined;
  }

  async #apply(
    script: Script,
    { step, started }: { readonly step: Step; readonly started: number },
  ): Promise<SyncReport | ApplyFailure> {
    const { dataplane, clock, logger, observer } = this.#options;
    try {
      await dataplane.apply(script);
    } catch (error) {
      if (!(error instanceof ApplyError)) throw error;
      const retry = script.kind === "partial" && error.failure !== "program-failed"
        ? "replacing everything"
        : "the kernel keeps what it had; trying again";
      logger.error(`${script.kind} sync failed: ${error.message}; ${retry}`, {
        failure: error.failure,
      });
      observer.failed?.({ kind: script.kind, error });
      return error.failure;
    }
    const seconds = (clock.monotonic() - started) / 1000;
    logger.debug(2, "synced", {
      kind: script.kind,
      operations: script.operations,
      bytes: script.bytes,
      seconds,
    });
    const report = { script, seconds, step };
    observer.synced?.(report);
    return report;
  }

  /** After failures the next try waits longer each time. */
  #pause(minSyncPeriod: number): number {
    if (this.#failures === 0) {
      return this.#fullReason ? Math.min(minSyncPeriod, URGENT_PAUSE) : minSyncPeriod;
    }
    return Math.max(
      minSyncPeriod,
      Math.min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** (this.#failures - 1)),
    );
  }
}
