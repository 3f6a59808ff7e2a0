/**
 * What a sync did, and who learns of it.
 *
 * @module
 */
import type { ApplyError, Script } from "../model/kernel/dataplane.ts";
import type { StateChange } from "../model/kernel/desired.ts";
import type { Omission } from "../model/cluster/objects.ts";
import type { Turns } from "../model/ports/in_turns.ts";
import type { Step } from "../policy/state.ts";
import type { StepObserver } from "./step_reports.ts";

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
  /** What has come so far is taken into a sync; what comes from now on is for the next one. */
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

/** How a try to sync ended. */
export interface SyncOutcome {
  /** What the sync was about. */
  readonly change: StateChange;
  /** The kernel has it. */
  readonly done: boolean;
  /** The kernel may have held something else before: at a start, after failures and drift. */
  readonly full: boolean;
  /** What was applied; `undefined`: the kernel did not take it. */
  readonly report: SyncReport | undefined;
}

/** Something that has to be done after a try to sync, what is long of it in turns. Must not reject. */
export type SyncStep = (
  outcome: SyncOutcome,
  turns: Pick<Turns, "run">,
) => Promise<void> | void;
