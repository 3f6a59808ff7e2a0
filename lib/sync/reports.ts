/** Reports to the log and the observer what Services lose, each fact once. */
import type { ObjectEvent, Refusal } from "../model/cluster/objects.ts";
import { type Unsupported, unsupportedLine } from "../model/kernel/traits.ts";
import type { Logger } from "../model/ports/ports.ts";
import { conflictLine } from "../policy/service_claims.ts";
import type { Conflict } from "../model/status.ts";
import type { Step } from "../policy/state.ts";
import type { ApplyError, Script } from "../model/kernel/dataplane.ts";
import type { StateChange } from "../model/kernel/desired.ts";
import type { Turns } from "../model/ports/in_turns.ts";

/** Receives reports of the loop's work, for metrics and Events. */
export interface SyncObserver {
  /** An event of a source came. The cache does not have it yet. */
  seen?(event: ObjectEvent): void;
  /** A sync takes all changes so far. Later changes wait for the next sync. */
  started?(): void;
  /** @param seconds from the start of the sync */
  synced?(script: Script, seconds: number): void;
  failed?(kind: Script["kind"], error: ApplyError): void;
  /** Another program changed the rules; a repair follows. */
  drifted?(): void;
  /** An object or a part of it cannot be used; each state of it is reported once. */
  refused?(refusal: Refusal, what: "object" | "part"): void;
  /** A Service loses claims. Its new conflicts are reported together, once. */
  conflicts?(service: string, conflicts: readonly Conflict[]): void;
  /** A Service needs what nft or the kernel refuses. Each feature is reported once. */
  unsupported?(unsupported: Unsupported): void;
}

/** The progress of the loop, for health and metrics. */
export interface SyncProgress {
  /** Monotonic milliseconds since which a change waits for the kernel; `undefined` without such a change. */
  readonly waitingSince: number | undefined;
  /** Monotonic milliseconds: the end of the last part of a script that has not failed; else `-Infinity`. */
  readonly moved: number;
  /** Failed scripts in a row. */
  readonly failures: number;
  /** Milliseconds since the epoch: the last request for a sync, and the last script that the kernel took; 0: never. */
  readonly queued: number;
  readonly synced: number;
}

export interface SyncOutcome {
  readonly change: StateChange;
  /** True if the kernel may have held other rules before: at a start, after failures and drift. */
  readonly isFull: boolean;
  /** The kind of the last script that the kernel took; `undefined` if the sync failed. */
  readonly applied: Script["kind"] | undefined;
}

/** A step after a try to sync; its long work runs in turns. Must not reject. */
export type SyncStep = (
  outcome: SyncOutcome,
  turns: Pick<Turns, "run">,
) => Promise<void> | void;

export class StepReports {
  /** The reported facts by Service. Few Services have reports. */
  readonly #known = new Map<string, Set<string>>();

  constructor(
    private readonly options: { readonly logger: Logger; readonly observer: SyncObserver },
  ) {}

  report(step: Step): void {
    const { logger, observer } = this.options;
    const before = new Map<string, ReadonlySet<string>>();
    for (const service of step.change.services.keys()) {
      const known = this.#known.get(service);
      if (known) before.set(service, known);
      this.#known.delete(service);
    }
    const isNew = (service: string, fact: string) => {
      const facts = this.#known.get(service) ?? new Set();
      this.#known.set(service, facts.add(fact));
      return before.get(service)?.has(fact) !== true;
    };
    for (const [loser, lost] of Map.groupBy(step.conflicts, ({ loser }) => loser)) {
      const fresh = lost.filter(({ claim, holder }) => isNew(loser, `${claim} of ${holder}`));
      if (fresh.length === 0) continue;
      logger.warn(conflictLine(loser, fresh));
      observer.conflicts?.(loser, fresh);
    }
    for (const each of step.unsupported) {
      if (!isNew(each.service, each.feature)) continue;
      logger.warn(unsupportedLine(each));
      observer.unsupported?.(each);
    }
    // The number over the limit may change with each endpoint.
    for (const each of step.overLimit) if (isNew(each.key, each.limit)) this.refuse(each);
  }

  refuse(refusal: Refusal): void {
    const { logger, observer } = this.options;
    const { kind, key, reason } = refusal;
    logger.warn("object refused; its last good state stays", { kind, key, reason });
    observer.refused?.(refusal, "object");
  }
}
