/**
 * What the sync loop knows, and how each event changes it. Values in, values out: the loop does what
 * the state says, and tells what came of it.
 *
 * @module
 */
import type { MinSyncPeriod } from "../model/configuration.ts";
import { delayAfter } from "../model/values/timing.ts";
import type { ApplyFailure } from "../model/kernel/dataplane.ts";

/** Why everything is replaced. */
export type FullCause =
  | "start"
  | "period"
  /** The last sync failed: what the kernel has may not be what was applied last. */
  | "sync-failed"
  /** The partial script of this sync failed. */
  | "partial-failed"
  /** A partial script cannot make this change. */
  | "no-partial"
  /** Another part asked for it, with this reason. */
  | { readonly requested: string };

/** What the loop is doing. `since`: monotonic time at which it began to be busy. */
export type Phase =
  /** The daemon starts; the loop does not run yet. */
  | { readonly name: "starting"; readonly since: number }
  /** The loop waits for work, or until the pause between two syncs is over. */
  | { readonly name: "waiting" }
  /** What another program has changed is being put back. */
  | { readonly name: "repair"; readonly since: number }
  /** What changed is being applied. */
  | { readonly name: "partial"; readonly since: number }
  /** Everything is being replaced. */
  | { readonly name: "full"; readonly since: number; readonly cause: FullCause }
  /** The sync is over; the steps after it are being taken. */
  | { readonly name: "after-sync"; readonly since: number };

/** The state of the sync loop. */
export interface SyncState {
  readonly phase: Phase;
  /** Every kind of object has been delivered by the sources. */
  readonly complete: boolean;
  /** The rules are those of the state file, or are going to be, until the sources are complete. */
  readonly stale: boolean;
  /** The next sync is wanted; it may be partial. */
  readonly changed: boolean;
  /** The last sync took a share of the changes: the next one follows without a pause. */
  readonly unfinished: boolean;
  /** Another program has changed the rules: what differs is put back before the next sync. */
  readonly repair: boolean;
  /** The next sync must be full, and why. */
  readonly full: FullCause | undefined;
  /** Syncs that failed in a row. */
  readonly failures: number;
  /** Monotonic time at which the last sync ended. */
  readonly lastSync: number;
  /** Milliseconds that the last few syncs took, the newest last; only those since a quiet second. */
  readonly durations: readonly number[];
  /** Monotonic time at which the kernel took the last full script. */
  readonly lastFull: number | undefined;
}

/** What happens to the sync loop. `at`: monotonic time, milliseconds. */
export type SyncEvent =
  /** The objects of the sources changed, or became complete; only complete ones count. */
  | { readonly type: "changed" }
  | { readonly type: "full-requested"; readonly reason: string }
  /** Another program has changed the rules. */
  | { readonly type: "repair-requested" }
  /** What differs is looked for, and put back. */
  | { readonly type: "repair-started"; readonly at: number }
  /** `isDone`: nothing differs any more; else everything has to be replaced. */
  | { readonly type: "repair-ended"; readonly at: number; readonly isDone: boolean }
  /** The addresses of the node have changed, and no object. */
  | { readonly type: "round-requested" }
  /** The full sync period may be over. */
  | { readonly type: "period-checked"; readonly at: number; readonly fullSyncPeriod: number }
  /** The objects of the state file are in the cache. */
  | { readonly type: "restored" }
  /** The loop runs from now on. */
  | { readonly type: "running" }
  /** A sync begins. `hasPartial`: a partial script can make what changed. */
  | {
    readonly type: "sync-started";
    readonly at: number;
    readonly hasPartial: boolean;
    /** More changes wait than one sync takes. */
    readonly isUnfinished: boolean;
  }
  /** The kernel took the script. */
  | { readonly type: "applied"; readonly at: number }
  /** The kernel did not take the script. */
  | { readonly type: "failed"; readonly at: number; readonly failure: ApplyFailure }
  /** The steps after the sync were taken. */
  | { readonly type: "followed" };

/** How long the loop waits, in milliseconds. */
export interface SyncPeriods {
  /** From the end of a sync until the next one may begin; changes are gathered meanwhile. */
  readonly minSyncPeriod: MinSyncPeriod;
  /** Everything is replaced after so long without a full sync. */
  readonly fullSyncPeriod: number;
}

/** What a waiting loop does next; `at`: monotonic time, which may be over already. */
export interface Plan {
  readonly action: "sync" | "wait";
  readonly at: number;
}

/** Between repairs, so that a program that keeps on deleting does not get all of the processor. */
const URGENT_PAUSE = 100;

/** After failures. */
const BACKOFF = { first: 1_000, longest: 30_000 };

/** The state of a loop that is made at this monotonic time: its first sync is full. */
export function initialState(at: number): SyncState {
  return {
    phase: { name: "starting", since: at },
    complete: false,
    stale: false,
    changed: false,
    unfinished: false,
    repair: false,
    full: "start",
    failures: 0,
    lastSync: -Infinity,
    durations: [],
    lastFull: undefined,
  };
}

/** The state after an event. An event that does not belong to the phase changes nothing. */
export function next(state: SyncState, event: SyncEvent): SyncState {
  const { phase } = state;
  switch (event.type) {
    case "changed":
      return { ...state, complete: true, changed: true };
    case "round-requested":
      return { ...state, changed: true };
    case "repair-requested":
      return { ...state, repair: true };
    case "repair-started":
      if (phase.name !== "waiting") return state;
      return { ...state, phase: { name: "repair", since: event.at }, repair: false };
    case "repair-ended":
      if (phase.name !== "repair") return state;
      return repairEnded(state, { ...event, since: phase.since });
    case "full-requested":
      return { ...state, full: state.full ?? { requested: event.reason } };
    case "period-checked":
      return event.at < fullDue(state, event) ? state : { ...state, full: state.full ?? "period" };
    case "restored":
      return { ...state, stale: true };
    case "sync-started":
      return phase.name === "waiting" ? startSync(state, event) : state;
    case "applied":
      return applied(state, event.at);
    case "failed":
      return failed(state, event);
    case "running":
    case "followed":
      return { ...state, phase: { name: "waiting" } };
  }
}

/** Returns true if there is anything to sync, and objects to make rules of. */
export function hasWork({ complete, stale, changed, repair, full }: SyncState): boolean {
  return (complete || stale) && (changed || repair || full !== undefined);
}

/** What a waiting loop does next. */
export function plan(state: SyncState, periods: SyncPeriods): Plan {
  return hasWork(state)
    ? { action: "sync", at: state.lastSync + pause(state, periods) }
    : { action: "wait", at: fullDue(state, periods) };
}

/** Milliseconds from the end of the last sync until the next one may begin, where nothing is urgent. */
export function pauseInForce(
  { durations }: SyncState,
  { minSyncPeriod }: Pick<SyncPeriods, "minSyncPeriod">,
): number {
  return minSyncPeriod === "adaptive" ? adaptivePause(durations) : minSyncPeriod;
}

/** Why everything is being replaced, in the words of the log; `undefined`: it is not. */
export function describeFull(phase: Phase): string | undefined {
  if (phase.name !== "full") return undefined;
  return typeof phase.cause === "object" ? phase.cause.requested : CAUSES[phase.cause];
}

const CAUSES: Readonly<Record<Extract<FullCause, string>, string>> = {
  "start": "start",
  "period": "full sync period",
  "sync-failed": "the last sync failed",
  "partial-failed": "the partial sync failed",
  "no-partial": "the node changed, or very much",
};

/** Where nothing has changed, the repair was the sync. */
function repairEnded(
  state: SyncState,
  { since, at, isDone }: { readonly since: number; readonly at: number; readonly isDone: boolean },
): SyncState {
  if (isDone && !state.changed && state.full === undefined) return ended(state, { since, at });
  const full = isDone ? state.full : state.full ?? { requested: "drift" };
  return { ...state, phase: { name: "waiting" }, full };
}

/** What the sync takes on is wanted no more; what is wanted from now on is for the next one. */
function startSync(
  { full, ...state }: SyncState,
  { at, hasPartial, isUnfinished }: Extract<SyncEvent, { readonly type: "sync-started" }>,
): SyncState {
  const isPartial = full === undefined && hasPartial;
  return {
    ...state,
    phase: isPartial
      ? { name: "partial", since: at }
      : { name: "full", since: at, cause: full ?? "no-partial" },
    stale: state.stale && !state.complete,
    durations: at - state.lastSync > LONGEST_PAUSE ? [] : state.durations,
    changed: isUnfinished,
    unfinished: isUnfinished,
    repair: isPartial && state.repair,
    full: undefined,
  };
}

function applied(state: SyncState, at: number): SyncState {
  const { phase } = state;
  switch (phase.name) {
    case "partial":
      return { ...ended(state, { ...phase, at }), failures: 0 };
    case "full":
      return { ...ended(state, { ...phase, at }), failures: 0, lastFull: at };
    default:
      return state;
  }
}

/**
 * A full sync follows a failure: at once after a partial one, which serves all requests so far; after
 * a pause where that failed, or where the program hangs or cannot be started.
 */
function failed(
  state: SyncState,
  { at, failure }: { readonly at: number; readonly failure: ApplyFailure },
): SyncState {
  const { phase } = state;
  if (phase.name === "partial" && failure !== "program-failed") {
    return {
      ...state,
      phase: { ...phase, name: "full", cause: "partial-failed" },
      full: undefined,
    };
  }
  if (phase.name !== "partial" && phase.name !== "full") return state;
  const { failures } = state;
  return { ...ended(state, { ...phase, at }), full: "sync-failed", failures: failures + 1 };
}

function ended(
  state: SyncState,
  { since, at }: { readonly since: number; readonly at: number },
): SyncState {
  const durations = withDuration(state.durations, at - since);
  return { ...state, phase: { name: "after-sync", since }, lastSync: at, durations };
}

/** Monotonic time at which everything is replaced though nothing changed. */
function fullDue(
  { lastFull }: SyncState,
  { fullSyncPeriod }: Pick<SyncPeriods, "fullSyncPeriod">,
): number {
  return lastFull === undefined ? Infinity : lastFull + fullSyncPeriod;
}

/** Milliseconds between two syncs; after failures more each time. */
function pause(state: SyncState, periods: SyncPeriods): number {
  const { failures, repair, full, unfinished } = state;
  const usual = pauseInForce(state, periods);
  if (failures > 0) return Math.max(usual, delayAfter(BACKOFF, failures - 1));
  if (unfinished) return 0;
  const isUrgent = repair || full !== undefined;
  return isUrgent ? Math.min(usual, URGENT_PAUSE) : usual;
}

/** Milliseconds; a pause is never longer, whatever the kernel takes. */
export const LONGEST_PAUSE = 1_000;

/** Pauses are so many times as long as syncs: syncing takes a fifth of the time. */
const FACTOR = 4;

/** Syncs that a pause follows. */
const COUNTED = 3;

/** A sync that took longer than this, in milliseconds, has the longest pauses as it is. */
const LONGEST_COUNTED = LONGEST_PAUSE / FACTOR;

/**
 * The pause after a sync.
 *
 * The mean of the last three: a single slow sync is paid for in three short pauses, not in a long one.
 * Where there are fewer, those before took no time: so a change that soon follows the first one does
 * not wait long. That is within the share, for before the first one there was a quiet second.
 *
 * The time on the clock stands for the time of the processor, that of `nft` or `iptables-restore`
 * included: both programs have one busy thread, and one waits for the other. On a machine that is busy
 * otherwise the pauses become longer.
 *
 * @param durations milliseconds that the last syncs took, the newest last, without a quiet second between
 * @returns milliseconds from the end of the last sync until the next one may begin
 */
export function adaptivePause(durations: readonly number[]): number {
  const counted = durations.slice(-COUNTED).map((each) => Math.min(each, LONGEST_COUNTED));
  return counted.reduce((sum, each) => sum + each, 0) * FACTOR / COUNTED;
}

/** Adds the duration of a sync to those that set the next pause. */
export function withDuration(durations: readonly number[], duration: number): readonly number[] {
  return [...durations, duration].slice(-COUNTED);
}
