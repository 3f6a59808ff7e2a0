/**
 * The sync loop: takes changes in, works out the desired state, and holds the kernel to it.
 *
 * @module
 */
import type { ObjectCache } from "../cache/cache.ts";
import type { Desired, Step } from "../policy/state.ts";
import type { Backend } from "../backend/backend.ts";
import { ApplyError, type Script } from "../model/kernel/dataplane.ts";
import type { ObjectEvent, Refusal, ReplaceEvent } from "../model/cluster/objects.ts";
import { resultOf, Turns } from "../model/ports/in_turns.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import {
  describeFull,
  hasWork,
  initialState,
  next,
  pauseInForce,
  plan,
  type SyncEvent,
  type SyncPeriods,
  type SyncState,
} from "./state.ts";
import {
  StepReports,
  type SyncObserver,
  type SyncOutcome,
  type SyncReport,
  type SyncStep,
} from "./reports.ts";
import { AutoResetEvent } from "./auto_reset_event.ts";

/** What the loop works with. */
export interface SyncOptions extends SyncPeriods {
  readonly cache: ObjectCache;
  readonly desired: Desired;
  /** Makes and applies the scripts. */
  readonly backend: Pick<
    Backend,
    "full" | "streamed" | "changing" | "isUnfinished" | "apply" | "repair"
  >;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer: SyncObserver;
  /** The cost that one partial sync writes, in elements, while other Services wait; absent: no bound. */
  readonly share: number | undefined;
  /** What has to be done after a try to sync and before the next one, in this order. */
  readonly afterSync: readonly SyncStep[];
  /** Ends the loop; of a sync that is under way, no further part is begun. */
  readonly signal: AbortSignal;
}

/** Owns what was applied. One sync runs at a time; what comes meanwhile waits in the cache, merged. */
export class SyncLoop {
  readonly #options: SyncOptions;
  readonly #requested: AutoResetEvent;
  readonly #reports: StepReports;
  readonly #intake: Intake;
  #state: SyncState;
  /** Monotonic time at which a script got on. */
  #moved = -Infinity;

  /** @param options everything that the loop works with */
  constructor(options: SyncOptions) {
    this.#options = options;
    this.#reports = new StepReports(options);
    this.#intake = new Intake({ ...options, onTaken: (refusals) => this.#taken(refusals) });
    this.#state = initialState(options.clock.monotonic());
    this.#requested = new AutoResetEvent(options.clock);
  }

  /** Takes an event of a source in. */
  handle(event: ObjectEvent): void {
    this.#intake.handle(event);
  }

  #taken(refusals: readonly Refusal[]): void {
    const { cache, observer, logger } = this.#options;
    for (const refusal of refusals) this.#reports.refuse(refusal);
    for (const omission of cache.takeOmissions()) {
      logger.warn("a part of the object is left out, the rest of it counts", { ...omission });
      observer.omitted?.(omission);
    }
    if (cache.complete && (cache.isDirty || !this.#state.complete)) this.#take({ type: "changed" });
    if (!hasWork(this.#state)) return;
    observer.queued?.();
    this.#requested.set();
  }

  /** Asks for a replacement of everything, without waiting for the min sync period. */
  requestFull(reason: string): void {
    this.#request({ type: "full-requested", reason });
  }

  /** Asks that what another program has changed be put back, without waiting for the min sync period. */
  requestRepair(): void {
    this.#request({ type: "repair-requested" });
  }

  /** Asks for a sync though no object has changed: policy and `afterSync` look at the node's addresses. */
  requestRound(): void {
    // What the policy asks around it was asked when the Services' turn began.
    this.#intake.inTurn(() => {
      this.#take({ type: "round-requested" });
      this.#requested.set();
    });
  }

  /**
   * Takes the objects of a state file in, before `run` and any event: the first sync is about them, and the rules
   * stay so until the sources have delivered everything.
   */
  async restore(events: readonly ReplaceEvent[]): Promise<void> {
    const { cache, clock } = this.#options;
    await new Turns(clock).run(cache.restoring(events));
    // The first sync opens it when it has taken these objects.
    await this.#intake.close();
    this.#take({ type: "restored" });
  }

  /**
   * Milliseconds that the round at hand has taken so far, `afterSync` included, or the time from the
   * start until `run`, or since its script got on; 0 while the loop waits for changes.
   */
  get busy(): number {
    const { phase } = this.#state;
    if (phase.name === "waiting") return 0;
    return this.#options.clock.monotonic() - Math.max(phase.since, this.#moved);
  }

  /** Milliseconds that changes are gathered for after the last sync. */
  get pause(): number {
    return pauseInForce(this.#state, this.#options);
  }

  /** Returns true if the rules are of a state from before the start. */
  get stale(): boolean {
    return this.#state.stale;
  }

  /**
   * Runs until the signal aborts, and ends when the transaction that is under way has. The rules stay
   * in the kernel.
   */
  async run(): Promise<void> {
    const { clock, fullSyncPeriod, signal } = this.#options;
    signal.addEventListener("abort", () => this.#requested.set(), { once: true });
    this.#take({ type: "running" });
    while (!signal.aborted) {
      const { action, at } = plan(this.#state, this.#options);
      const milliseconds = Math.max(0, at - clock.monotonic());
      if (action === "sync") {
        await clock.sleep(milliseconds, signal);
        if (!signal.aborted) await this.#sync().catch(unlessEnded(signal));
      } else {
        await this.#requested.wait(milliseconds);
      }
      // Changes may come with each sync: then the loop never waits.
      this.#take({ type: "period-checked", at: clock.monotonic(), fullSyncPeriod });
    }
  }

  /** Takes a request that is work of its own. */
  #request(event: SyncEvent): void {
    this.#take(event);
    this.#options.observer.queued?.();
    this.#requested.set();
  }

  #take(event: SyncEvent): void {
    this.#state = next(this.#state, event);
  }

  /** Brings the kernel to the state of the objects. */
  async #sync(): Promise<void> {
    const { cache, desired, backend, clock, observer } = this.#options;
    const started = clock.monotonic();
    const repaired = await this.#repair(started);
    if (this.#state.phase.name === "after-sync") {
      if (repaired) {
        await this.#follow({ change: repaired.step.change, full: true, report: repaired });
      }
      this.#take({ type: "followed" });
      return;
    }
    await this.#intake.close();
    observer.started?.();
    const turns = new Turns(clock);
    const isConsistent = cache.consistent;
    if (isConsistent && this.#state.full !== undefined && desired.services.size === 0) {
      this.#take({ type: "sync-started", at: started, hasPartial: false, isUnfinished: false });
      await this.#writeFirst(started);
      this.#take({ type: "followed" });
      return;
    }
    // Between the state file and the last of the first lists the rules stay as they are.
    const step = isConsistent ? await turns.run(this.#nextStep()) : noStep();
    // No turn ends here: from now on the desired state is ahead of the kernel, and only a script
    // that is being made says so to those who compare the two.
    this.#reports.report(step);
    const partial = this.#state.full === undefined
      ? await turns.run(backend.changing(step.change, desired))
      : undefined;
    const isUnfinished = isConsistent && (cache.isDirty || backend.isUnfinished === true);
    // It may have been asked for while the partial script was made.
    const isFull = this.#state.full !== undefined;
    const hasPartial = partial !== undefined;
    this.#take({ type: "sync-started", at: started, hasPartial, isUnfinished });
    this.#intake.open();
    let report = partial && !isFull
      ? await this.#apply(partial, { step: () => step, started })
      : undefined;
    if (this.#state.phase.name === "full") {
      report = await this.#apply(backend.full(desired), { step: () => step, started });
    }
    const isFallback = partial !== undefined && report?.script.kind === "full";
    const full = isFull || isFallback || repaired !== undefined;
    await this.#follow({ change: step.change, full, report });
    if (isUnfinished) observer.queued?.();
    this.#take({ type: "followed" });
  }

  /** Works out the next step: a fair share of what changed. What is left of it waits for the next sync. */
  *#nextStep(): Generator<undefined, Step> {
    const { cache, desired, share: most } = this.#options;
    const share = most === undefined
      ? undefined
      : { most, costOf: (key: string) => desired.costOf(cache, key) };
    const step = yield* desired.updating(cache, cache.takeDirty(share), most);
    cache.putBack(step.growing);
    return step;
  }

  /**
   * Puts back what another program has changed: by parts before the next step, where that is possible
   * and the kernel takes it, else everything with that step.
   *
   * @returns what was put back; `undefined`: nothing
   */
  async #repair(started: number): Promise<SyncReport | undefined> {
    if (!this.#state.repair || this.#state.full !== undefined) return undefined;
    const { desired, backend, logger } = this.#options;
    this.#take({ type: "repair-started", at: started });
    const script = await backend.repair(desired);
    const isSame = script?.text === "";
    if (isSame) logger.debug(2, "nothing differs from what was written");
    const report = script && !isSame
      ? await this.#apply(script, { step: noStep, started })
      : undefined;
    const isDone = isSame || report !== undefined;
    this.#take({ type: "repair-ended", at: this.#options.clock.monotonic(), isDone });
    return report;
  }

  /** Works all Services out, and writes them; where the backend can, some while others are worked out. */
  async #writeFirst(started: number): Promise<void> {
    const { cache, desired, backend, clock } = this.#options;
    const turns = new Turns(clock);
    const streamed = await turns.run(desired.streaming(cache, cache.takeDirty()));
    let step = noStep();
    const report = (all: Step) => {
      step = all;
      this.#reports.report(all);
      this.#intake.open();
    };
    const services = (function* () {
      report(yield* streamed.services);
    })();
    if (!backend.streamed) await turns.run(resultOf(services));
    const script = backend.streamed?.({ ...streamed, services }) ?? backend.full(desired);
    const applied = await this.#apply(script, { step: () => step, started });
    // Where it failed, the desired state is complete all the same.
    await turns.run(resultOf(services));
    await this.#follow({ change: step.change, full: true, report: applied });
  }

  /** Takes the steps that follow a try. */
  async #follow(outcome: Omit<SyncOutcome, "done">): Promise<void> {
    const { afterSync, signal } = this.#options;
    const done = outcome.report !== undefined;
    const turns = new Turns(this.#options.clock);
    for (const step of afterSync) {
      await turns.giveWay();
      signal.throwIfAborted();
      await step({ ...outcome, done }, turns);
    }
  }

  /** Called after each part of a script. */
  readonly #checkpoint = () => {
    const { clock, observer, signal } = this.#options;
    signal.throwIfAborted();
    this.#moved = clock.monotonic();
    observer.moved?.();
  };

  async #apply(
    script: Script,
    { step, started }: { readonly step: () => Step; readonly started: number },
  ): Promise<SyncReport | undefined> {
    const { backend, clock, logger, observer, signal } = this.#options;
    signal.throwIfAborted();
    try {
      await backend.apply(script, this.#checkpoint);
    } catch (error) {
      // Another daemon follows, or the process ends, and its programs with it.
      signal.throwIfAborted();
      if (!(error instanceof ApplyError)) throw error;
      this.#take({ type: "failed", at: clock.monotonic(), failure: error.failure });
      const { name } = this.#state.phase;
      const retry = name === "full" || name === "repair"
        ? "replacing everything"
        : "the kernel keeps what it had; trying again";
      logger.error(`${script.kind} sync failed: ${error.message}; ${retry}`, {
        failure: error.failure,
      });
      observer.failed?.({ kind: script.kind, error });
      return undefined;
    }
    const turns = new Turns(clock);
    const seconds = (clock.monotonic() - started) / 1000;
    logger.debug(2, "synced", {
      kind: script.kind,
      operations: script.operations,
      bytes: script.bytes,
      seconds,
    });
    const report = { script, seconds, step: step() };
    observer.synced?.(report);
    const reason = describeFull(this.#state.phase);
    if (reason !== undefined) logger.debug(2, "full sync", { reason });
    this.#take({ type: "applied", at: clock.monotonic() });
    await turns.giveWay();
    return report;
  }
}

function unlessEnded(signal: AbortSignal): (error: unknown) => void {
  return (error) => {
    if (error !== signal.reason) throw error;
  };
}

/** Where the desired state stays as it was. */
function noStep(): Step {
  const change = { node: undefined, services: new Map() };
  return { change, conflicts: [], unsupported: [], overLimit: [], growing: new Set() };
}

/** Gives the cache that takes events, and who is called after it. */
export interface IntakeOptions {
  readonly cache: Pick<ObjectCache, "applying">;
  readonly clock: Clock;
  /** Called when the cache has taken an event in. */
  readonly onTaken: (refusals: readonly Refusal[]) => void;
}

/** The way into the cache. What comes while it is closed, or while it takes many objects in, waits. */
export class Intake {
  readonly #options: IntakeOptions;
  /** Events that wait; `undefined` if none has to. */
  #held: (() => void)[] | undefined;
  /** The cache takes many objects in. */
  #filling: Promise<void> | undefined;

  /** @param options what takes events, and hears of it */
  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /** Takes an event in, many objects in turns. */
  handle(event: ObjectEvent): void {
    if (this.#held) return void this.#held.push(() => this.handle(event));
    const { cache, clock, onTaken } = this.#options;
    const taking = cache.applying(event);
    const { done, value } = taking.next();
    if (done) return onTaken(value);
    this.#held = [];
    this.#filling = new Turns(clock).run(taking).then((refusals) => {
      this.#filling = undefined;
      onTaken(refusals);
      this.open();
    });
  }

  /** Does something in its turn: where events wait, after those that came before. */
  inTurn(action: () => void): void {
    if (this.#held) this.#held.push(action);
    else action();
  }

  /** Has the cache stay as it is, once what is under way has been taken in. */
  async close(): Promise<void> {
    while (this.#filling) await this.#filling;
    this.#held ??= [];
  }

  /** Takes in what has waited, and what comes; where the cache takes many objects in, after that. */
  open(): void {
    if (this.#filling) return;
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const take of held) take();
  }
}
