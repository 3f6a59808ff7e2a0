/** Runs the sync loop: takes changes, computes the desired state, and keeps the kernel in that state. */
import type { ObjectCache } from "../cache/cache.ts";
import type { Desired, Step } from "../policy/state.ts";
import type { MinSyncPeriod } from "../model/configuration.ts";
import {
  ApplyError,
  type ApplyFailure,
  type Dataplane,
  type Drift,
  type Script,
} from "../model/kernel/dataplane.ts";
import type { ObjectEvent, ReplaceEvent } from "../model/cluster/objects.ts";
import { Turns } from "../model/ports/in_turns.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import {
  AutoResetEvent,
  type BackoffLimits,
  delayAfter,
  Limiter,
  type LimiterOptions,
} from "../model/values/timing.ts";
import {
  StepReports,
  type SyncObserver,
  type SyncOutcome,
  type SyncProgress,
  type SyncStep,
} from "./reports.ts";

interface SyncOptions {
  readonly cache: ObjectCache;
  readonly desired: Desired;
  readonly dataplane: Pick<Dataplane, "full" | "changing" | "isUnfinished" | "apply" | "repair">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer: SyncObserver;
  /** The time from the end of a sync to the next sync, in which changes are gathered. */
  readonly minSyncPeriod: MinSyncPeriod;
  /** Milliseconds without a full sync after which everything is replaced. */
  readonly fullSyncPeriod: number;
  /** The cost that one partial sync writes, in elements, while other Services wait; absent if unbounded. */
  readonly share: number | undefined;
  /** Ends the loop before the next part of a running sync. */
  readonly signal: AbortSignal;
}

/** Owns the applied state. One sync runs at a time, and the cache merges changes during a sync. */
export class SyncLoop {
  readonly #wake: AutoResetEvent;
  readonly #reports: StepReports;
  readonly #pauses: SyncPauses;
  readonly #repairPauses = new Limiter(REPAIRS);
  /** An unexpected error, which ends the loop. */
  #defect: unknown;
  /** Resolves when the last work on the objects has ended. */
  #objects: Promise<unknown> = Promise.resolve();
  /** The reason why the next sync replaces everything; `undefined` if a partial sync is enough. */
  #full: string | undefined = "start";
  #lastFull = Infinity;
  /** The time of the next repair; `Infinity` without drift. */
  #repairAt = Infinity;
  /** The drift that the next repair must confirm before it is reported. */
  #suspected: Drift | undefined;
  #drift: Drift | undefined;
  #isStale = false;
  /** True if the last sync took only a share of the changes. */
  #hasBacklog = false;
  /** The start of the running sync, or its last failure; `undefined` while the loop waits. */
  #began: number | undefined;
  #writing: Step["change"]["services"] = new Map();
  readonly #progress: { -readonly [K in keyof SyncProgress]: SyncProgress[K] } = {
    waitingSince: undefined,
    moved: -Infinity,
    failures: 0,
    queued: 0,
    synced: 0,
  };

  constructor(private readonly options: SyncOptions) {
    this.#reports = new StepReports(options);
    this.#pauses = new SyncPauses(options.minSyncPeriod);
    this.#wake = new AutoResetEvent(options.clock);
    this.#began = options.clock.monotonic();
  }

  readonly handle = (event: ObjectEvent): void => {
    this.options.observer.seen?.(event);
    this.#exclusively(async (turns) => {
      const { cache, logger, observer } = this.options;
      for (const refusal of await turns.run(cache.applying(event))) this.#reports.refuse(refusal);
      for (const omission of cache.takeOmissions()) {
        logger.warn("left out a part of the object; the rest is used", { ...omission });
        observer.refused?.(omission, "part");
      }
      this.#notice();
    }).catch((error) => {
      this.#defect = error;
      this.#wake.set();
    });
  };

  /** Notes that the node's addresses changed, or the ports that Services may not have. */
  nodeChanged(): void {
    void this.#exclusively(() => {
      this.options.cache.markNode();
      this.#notice();
    });
  }

  /** Asks for a replacement of everything, without waiting for the min sync period. */
  requestFull(reason: string): void {
    this.#full ??= reason;
    this.#notice();
  }

  /** Asks for a repair after a change by another program, at once or after a pause. */
  drifted(drift: Drift): void {
    if (this.#repairAt < Infinity) return;
    if (drift.isUnconfirmed) {
      this.#suspected = drift;
      this.#repairAt = this.options.clock.monotonic();
    } else this.#repairAt = this.#report(drift);
    this.#notice();
  }

  /** Reports drift. @returns the time of the repair */
  #report(drift: Drift): number {
    const { clock, logger, observer } = this.options;
    const { missing, added, by } = this.#drift = drift;
    const { pause, at } = this.#repairPauses.next(clock.monotonic());
    const then = pause === 0
      ? "; repairing the differences"
      : ` again and again; repairs wait ${pause / 1000} s: find that program and stop it`;
    logger.warn(`another program has changed our rules${then}`, {
      ...missing !== "" && { missing },
      ...added !== "" && { added },
      ...by !== "" && { by },
    });
    observer.drifted?.();
    return at;
  }

  /** The last reported drift, until it is repaired. */
  get drift(): Drift | undefined {
    return this.#drift;
  }

  /** Stores the objects of a state file, before `run`. Their rules stay until all sources have delivered. */
  async restore(events: readonly ReplaceEvent[]): Promise<void> {
    this.#isStale = true;
    await this.#exclusively((turns) => turns.run(this.options.cache.restoring(events)));
  }

  /** Milliseconds since the running sync began, failed or progressed, or from the start to `run`; else 0. */
  get busy(): number {
    if (this.#began === undefined) return 0;
    return this.options.clock.monotonic() - Math.max(this.#began, this.#progress.moved);
  }

  get progress(): SyncProgress {
    return this.#progress;
  }

  isWriting(service: string): boolean {
    return this.#writing.has(service);
  }

  /** Milliseconds from the end of the last sync in which changes are gathered. */
  get pause(): number {
    return this.#pauses.usual;
  }

  /** Returns true if the rules are of a state from before the start. */
  get stale(): boolean {
    return this.#isStale;
  }

  /** Runs until the abort and the end of the running transaction. @param afterSync steps after each try to sync */
  async run(afterSync: readonly SyncStep[] = []): Promise<void> {
    const { clock, fullSyncPeriod, signal } = this.options;
    signal.addEventListener("abort", () => this.#wake.set(), { once: true });
    this.#began = undefined;
    while (!signal.aborted) {
      if (this.#defect !== undefined) throw this.#defect;
      const now = clock.monotonic();
      if (now >= this.#lastFull + fullSyncPeriod) this.#full ??= "full sync period";
      if (!this.#hasWork) {
        await this.#wake.wait(Math.min(this.#lastFull + fullSyncPeriod, this.#repairAt) - now);
        continue;
      }
      const next = this.#pauses.next({
        isUrgent: this.#isUrgent,
        isUnfinished: this.#isUnfinished,
      });
      // Changes of one turn are gathered. Only the first sync begins at once, before the first event.
      if (next > -Infinity) await clock.sleep(Math.max(0, next - now), signal);
      if (signal.aborted) break;
      await this.#sync(afterSync).catch((error) => {
        if (error !== signal.reason) throw error;
      });
      this.#began = undefined;
      // Changes may have come during the sync, or be left.
      this.#notice();
    }
  }

  #notice(): void {
    const { clock } = this.options;
    if (this.#hasWork) {
      this.#progress.queued = clock.now();
      this.#progress.waitingSince ??= clock.monotonic();
    }
    this.#wake.set();
  }

  /** True if a sync has work, and knows the objects to make rules of. */
  get #hasWork(): boolean {
    const { cache } = this.options;
    if (this.#isUrgent) return cache.complete || this.#isStale;
    const isChanged = cache.isDirty || this.#isUnfinished || this.#isStale && cache.complete;
    return cache.consistent && isChanged;
  }

  get #isUrgent(): boolean {
    return this.#full !== undefined || this.#isRepairDue;
  }

  get #isRepairDue(): boolean {
    return this.options.clock.monotonic() >= this.#repairAt;
  }

  /** True if the last sync left changes or deletions to the next sync. */
  get #isUnfinished(): boolean {
    return this.#hasBacklog || this.options.dataplane.isUnfinished === true;
  }

  /** Brings the kernel to the state of the objects, for any reason. */
  async #sync(afterSync: readonly SyncStep[]): Promise<void> {
    const { clock } = this.options;
    const began = this.#began = clock.monotonic();
    this.#pauses.begin(began);
    const isRepair = this.#isRepairDue && this.#full === undefined;
    const repaired = isRepair ? await this.#repair(began) : undefined;
    let [applied, step, isFull] = [repaired, noStep(), repaired !== undefined];
    if (this.#hasWork) {
      const planned = await this.#exclusively((turns) => turns.run(this.#planning()));
      step = planned.step;
      applied = await this.#write(planned.partial, began);
      this.#writing = new Map();
      this.#reports.report(step);
      isFull ||= applied?.kind === "full";
    }
    // Drift that was reported during this sync gets a separate repair.
    if (isFull && this.#repairAt === Infinity) this.#drift = undefined;
    const isFailed = this.#full === FAILED;
    this.#pauses.end(clock.monotonic(), { began, isFailed });
    if (applied || isFailed) {
      await this.#follow({ change: step.change, isFull, applied: applied?.kind }, afterSync);
    }
  }

  /** Repairs by parts what another program changed, or asks for a full sync. */
  async #repair(began: number): Promise<Script | undefined> {
    const { desired, dataplane, logger } = this.options;
    const suspected = this.#suspected;
    this.#suspected = undefined;
    this.#repairAt = Infinity;
    const script = await dataplane.repair(desired);
    if (script?.text === "") {
      this.#drift = undefined;
      logger.debug(2, "the kernel has the rules that signpost wrote");
      return undefined;
    }
    // The time is not used: the period of looks limits these repairs.
    if (suspected) this.#report(suspected);
    const failure = script ? await this.#apply(script, began) : "unknown";
    if (failure === undefined) return script;
    this.#full ??= "drift";
    return undefined;
  }

  /** Computes the next step and its script; `undefined`: a full script. The state is then ahead of the kernel. */
  *#planning(): Generator<
    undefined,
    { readonly step: Step; readonly partial?: Script | undefined }
  > {
    const { cache, desired, dataplane, observer } = this.options;
    observer.started?.();
    // The rules of the state file stay until all first lists have come.
    if (!cache.consistent) return { step: noStep() };
    this.#isStale &&= !cache.complete;
    const isFirst = this.#full !== undefined && desired.services.size === 0;
    const most = isFirst ? undefined : this.options.share;
    const costOf = (key: string) => desired.costOf(cache, key);
    const share = most === undefined ? undefined : { most, costOf };
    const step = yield* desired.updating(cache, cache.takeDirty(share), most);
    cache.putBack(step.unfinished);
    this.#hasBacklog = cache.isDirty;
    // Set before the next turn: status then shows that the kernel is behind.
    this.#writing = step.change.services;
    const partial = this.#full === undefined
      ? yield* dataplane.changing(step.change, desired)
      : undefined;
    return { step, partial };
  }

  /** Writes the partial script, or replaces everything. @returns `undefined` if the kernel refused both */
  async #write(partial: Script | undefined, began: number): Promise<Script | undefined> {
    const { dataplane, desired, clock, logger } = this.options;
    let reason = this.#full ?? "the node changed";
    if (partial && this.#full === undefined) {
      const failure = await this.#apply(partial, began);
      if (failure === undefined) return partial;
      if (failure === "program-failed") return void (this.#full = FAILED);
      reason = "the partial sync failed";
    }
    this.#full = undefined;
    this.#suspected = undefined;
    this.#repairAt = Infinity;
    const script = dataplane.full(desired);
    if (await this.#apply(script, began)) return void (this.#full = FAILED);
    logger.debug(2, "full sync", { reason });
    this.#lastFull = clock.monotonic();
    return script;
  }

  async #apply(script: Script, began: number): Promise<ApplyFailure | undefined> {
    const { dataplane, clock, logger, observer, signal } = this.options;
    const checkpoint = () => {
      signal.throwIfAborted();
      this.#progress.moved = clock.monotonic();
    };
    const { kind } = script;
    signal.throwIfAborted();
    try {
      await dataplane.apply(script, checkpoint);
    } catch (error) {
      // Another daemon follows, or the process ends together with its programs.
      signal.throwIfAborted();
      if (!(error instanceof ApplyError)) throw error;
      const { failure } = error;
      const retry = kind === "partial" && failure !== "program-failed"
        ? "replacing everything"
        : "the kernel keeps the old rules; trying again";
      logger.error(`${kind} sync failed: ${error.message}; ${retry}`, { failure });
      this.#began = clock.monotonic();
      this.#progress.moved = -Infinity;
      this.#progress.failures += 1;
      observer.failed?.(kind, error);
      return failure;
    }
    const seconds = (clock.monotonic() - began) / 1000;
    const { operations, bytes } = script;
    logger.debug(2, "synced", { kind, operations, bytes, seconds });
    this.#progress.waitingSince = undefined;
    this.#progress.failures = 0;
    this.#progress.synced = clock.now();
    observer.synced?.(script, seconds);
    return undefined;
  }

  async #follow(outcome: SyncOutcome, afterSync: readonly SyncStep[]): Promise<void> {
    const { clock, signal } = this.options;
    const turns = new Turns(clock);
    for (const step of afterSync) {
      await turns.yieldIfDue();
      signal.throwIfAborted();
      await step(outcome, turns);
    }
  }

  /** Runs work on the objects in turns, after all earlier work on them. */
  #exclusively<T>(work: (turns: Turns) => T | Promise<T>): Promise<T> {
    const done = this.#objects.then(() => work(new Turns(this.options.clock)));
    this.#objects = done.catch(() => {});
    return done;
  }
}

/** The reason of a full sync after a failed sync. */
const FAILED = "the last sync failed";

/** Returns a step that leaves the desired state as it was. */
function noStep(): Step {
  const change = { node: undefined, services: new Map() };
  return { change, conflicts: [], unsupported: [], overLimit: [], unfinished: new Set() };
}

/** The longest adaptive pause in milliseconds. */
export const LONGEST_PAUSE = 1_000;

/** The ratio of pauses to syncs, so that syncs take a fifth of the time. */
const FACTOR = 4;

const COUNTED = 3;

/** A longer sync counts as this many milliseconds. */
const LONGEST_COUNTED = LONGEST_PAUSE / FACTOR;

/** The longest pause before an urgent sync, in milliseconds. */
const URGENT_PAUSE = 100;

/** The pauses after failed syncs, and between repairs. */
const BACKOFF: BackoffLimits = { first: 1_000, longest: 30_000 };

/** Follows syncs, and returns the pauses between them. All times are monotonic milliseconds. */
export class SyncPauses {
  /** The durations of the last syncs since a quiet second, in milliseconds, the newest last. */
  #durations: readonly number[] = [];
  #failures = 0;
  #ended = -Infinity;

  constructor(private readonly minSyncPeriod: MinSyncPeriod) {}

  /** Returns the usual pause. An adaptive one follows the mean of the last three syncs. */
  get usual(): number {
    if (this.minSyncPeriod !== "adaptive") return this.minSyncPeriod;
    const counted = this.#durations.map((each) => Math.min(each, LONGEST_COUNTED));
    return counted.reduce((sum, each) => sum + each, 0) * FACTOR / COUNTED;
  }

  /** Returns the time at which the next sync may begin. `isUnfinished`: the last sync left changes. */
  next({ isUrgent, isUnfinished }: {
    readonly isUrgent: boolean;
    readonly isUnfinished: boolean;
  }): number {
    if (this.#failures > 0) {
      return this.#ended + Math.max(this.usual, delayAfter(BACKOFF, this.#failures - 1));
    }
    if (isUnfinished) return this.#ended;
    return this.#ended + (isUrgent ? Math.min(this.usual, URGENT_PAUSE) : this.usual);
  }

  /** Notes that a sync begins. A quiet second forgets the durations. */
  begin(now: number): void {
    if (now - this.#ended > LONGEST_PAUSE) this.#durations = [];
  }

  end(
    now: number,
    { began, isFailed }: { readonly began: number; readonly isFailed: boolean },
  ): void {
    this.#ended = now;
    this.#durations = [...this.#durations, now - began].slice(-COUNTED);
    this.#failures = isFailed ? this.#failures + 1 : 0;
  }
}

/** Limits repairs: two programs that undo each other must not use all of the processor. */
export const REPAIRS: LimiterOptions = { atOnce: 5, pauses: BACKOFF };
