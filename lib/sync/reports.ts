/**
 * Tells the log and the observer what Services do not get, each thing once.
 *
 * @module
 */
import type { Omission, Refusal } from "../model/cluster/objects.ts";
import { type Unsupported, unsupportedLine } from "../model/kernel/traits.ts";
import type { Logger } from "../model/ports/ports.ts";
import { sharedKeys } from "../model/values/lists.ts";
import { conflictLine } from "../policy/claimed.ts";
import type { Conflict } from "../policy/claims.ts";
import type { Step } from "../policy/state.ts";
import type { ApplyError, Script } from "../model/kernel/dataplane.ts";
import type { StateChange } from "../model/kernel/desired.ts";
import type { Turns } from "../model/ports/in_turns.ts";

/** Describes a script that the kernel took. */
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
  /** A sync took all changes so far. Later ones wait for the next sync. */
  started?(): void;
  /** A script was applied. */
  synced?(report: SyncReport): void;
  /** A part of a script was written, or compared. */
  moved?(): void;
  /** A script was refused. */
  failed?(failure: { readonly kind: Script["kind"]; readonly error: ApplyError }): void;
  /** A part of an object cannot be used and is left out; each state of it is reported once. */
  omitted?(omission: Omission): void;
}

/** Describes the end of a sync, applied or failed. */
export interface SyncOutcome {
  /** The change that the sync wrote. */
  readonly change: StateChange;
  /** The kernel has it. */
  readonly done: boolean;
  /** The kernel may have held something else before: at a start, after failures and drift. */
  readonly full: boolean;
  /** The applied script; `undefined` if the kernel did not take it. */
  readonly report: SyncReport | undefined;
}

/** Something that has to be done after a try to sync, what is long of it in turns. Must not reject. */
export type SyncStep = (
  outcome: SyncOutcome,
  turns: Pick<Turns, "run">,
) => Promise<void> | void;

/** Hears of what Services do not get. Every member may be left out. */
export interface StepObserver {
  /** A step was worked out; the kernel does not have it yet. */
  stepped?(step: Step): void;
  /** An object cannot be used; each state of it is reported once. */
  refused?(refusal: Refusal): void;
  /** A Service does not get all that it asks for; all that is new of it, once. */
  conflicts?(service: string, conflicts: readonly Conflict[]): void;
  /** A Service needs what nft or the kernel refuses; once for each feature. */
  unsupported?(unsupported: Unsupported): void;
}

/** Who is told. */
export interface StepReportsOptions {
  readonly logger: Logger;
  readonly observer: StepObserver;
}

/** Remembers what was told of, until it is over. */
export class StepReports {
  /** What was warned of, by the Service that lost: what it asked for, and who had it. */
  readonly #conflicts = new Map<string, ReadonlyMap<string, string>>();
  readonly #unsupported = new Map<string, ReadonlySet<string>>();
  /** Services over a limit that were warned of, with the limit. */
  readonly #overLimit = new Map<string, string>();

  /** @param options who is told */
  constructor(private readonly options: StepReportsOptions) {}

  /** Reports what is new in a step. */
  report(step: Step): void {
    this.options.observer.stepped?.(step);
    this.#reportConflicts(step);
    this.#reportUnsupported(step);
    this.#reportOverLimit(step);
  }

  /** Reports an object that cannot be used. */
  refuse({ kind, key, reason }: Refusal): void {
    const { logger, observer } = this.options;
    logger.warn("object refused; its last good state stays", { kind, key, reason });
    observer.refused?.({ kind, key, reason });
  }

  /** How far a Service is over the limit may change with each endpoint. */
  #reportOverLimit({ change, overLimit }: Step): void {
    const known = takeOut(this.#overLimit, change);
    for (const refusal of overLimit) {
      const { key, limit } = refusal;
      if (known.get(key) !== limit) this.refuse(refusal);
      this.#overLimit.set(key, limit);
    }
  }

  /** Warns once of what a Service does not get, in one line however much it is, until it is over. */
  #reportConflicts({ change, conflicts }: Step): void {
    const known = takeOut(this.#conflicts, change);
    for (const [loser, lost] of Map.groupBy(conflicts, ({ loser }) => loser)) {
      this.#conflicts.set(loser, new Map(lost.map((each) => [each.claim, each.holder])));
      const fresh = lost.filter(({ claim, holder }) => known.get(loser)?.get(claim) !== holder);
      if (fresh.length === 0) continue;
      this.options.logger.warn(conflictLine(loser, fresh));
      this.options.observer.conflicts?.(loser, fresh);
    }
  }

  /** Warns once of a Service that needs what nft or the kernel refuses, until it does no more. */
  #reportUnsupported({ change, unsupported }: Step): void {
    const known = takeOut(this.#unsupported, change);
    for (const [service, list] of Map.groupBy(unsupported, ({ service }) => service)) {
      this.#unsupported.set(service, new Set(list.map(({ feature }) => feature)));
      for (const each of list.filter(({ feature }) => !known.get(service)?.has(feature))) {
        this.options.logger.warn(unsupportedLine(each));
        this.options.observer.unsupported?.(each);
      }
    }
  }
}

/** Takes out what is known of the Services of a step: few of very many have anything to tell of. */
function takeOut<T>(all: Map<string, T>, { services }: Step["change"]): ReadonlyMap<string, T> {
  const taken = new Map<string, T>();
  for (const service of sharedKeys(all, services)) {
    const known = all.get(service);
    if (known !== undefined) taken.set(service, known);
    all.delete(service);
  }
  return taken;
}
