/**
 * Tells the log and the observer what Services do not get, each thing once.
 *
 * @module
 */
import type { Refusal } from "../model/cluster/events.ts";
import { type Unsupported, unsupportedLine } from "../model/kernel/features.ts";
import type { Logger } from "../model/ports/ports.ts";
import { conflictLine } from "../policy/claimed.ts";
import type { Conflict } from "../policy/claims.ts";
import type { Step } from "../policy/state.ts";

/** Hears of what Services do not get. Every member may be left out. */
export interface StepObserver {
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
    this.#reportConflicts(step);
    this.#reportUnsupported(step);
    const over = new Map(step.overLimit.map((each) => [each.key, each]));
    for (const key of step.change.services.keys()) {
      const refusal = over.get(key);
      // How far it is over the limit may change with each endpoint.
      if (refusal && this.#overLimit.get(key) !== refusal.limit) this.refuse(refusal);
      if (refusal) this.#overLimit.set(key, refusal.limit);
      else this.#overLimit.delete(key);
    }
  }

  /** Reports an object that cannot be used. */
  refuse({ kind, key, reason }: Refusal): void {
    const { logger, observer } = this.options;
    logger.warn("object refused, its last good state is kept", { kind, key, reason });
    observer.refused?.({ kind, key, reason });
  }

  /** Warns once of what a Service does not get, in one line however much it is, until it is over. */
  #reportConflicts({ change, conflicts }: Step): void {
    const byLoser = Map.groupBy(conflicts, ({ loser }) => loser);
    for (const loser of change.services.keys()) {
      const lost = byLoser.get(loser) ?? [];
      const known = this.#conflicts.get(loser);
      if (lost.length === 0) this.#conflicts.delete(loser);
      else this.#conflicts.set(loser, new Map(lost.map((each) => [each.claim, each.holder])));
      const fresh = lost.filter(({ claim, holder }) => known?.get(claim) !== holder);
      if (fresh.length === 0) continue;
      this.options.logger.warn(conflictLine(loser, fresh));
      this.options.observer.conflicts?.(loser, fresh);
    }
  }

  /** Warns once of a Service that needs what nft or the kernel refuses, until it does no more. */
  #reportUnsupported({ change, unsupported }: Step): void {
    const byService = Map.groupBy(unsupported, ({ service }) => service);
    for (const service of change.services.keys()) {
      const list = byService.get(service) ?? [];
      const known = this.#unsupported.get(service);
      if (list.length === 0) this.#unsupported.delete(service);
      else this.#unsupported.set(service, new Set(list.map(({ feature }) => feature)));
      for (const each of list.filter(({ feature }) => !known?.has(feature))) {
        this.options.logger.warn(unsupportedLine(each));
        this.options.observer.unsupported?.(each);
      }
    }
  }
}
