import { assertEquals } from "@std/assert";
import {
  describeFull,
  type FullCause,
  hasWork,
  initialState,
  next,
  type Phase,
  plan,
  type SyncEvent,
  type SyncPeriods,
  type SyncState,
} from "../../lib/sync/state.ts";

const PERIODS: SyncPeriods = { minSyncPeriod: 1_000, fullSyncPeriod: 60_000 };
const WAITING: Phase = { name: "waiting" };
const PARTIAL: Phase = { name: "partial", since: 500 };
const REPAIR: Phase = { name: "repair", since: 500 };
const AFTER: Phase = { name: "after-sync", since: 500 };

/** A loop that has synced all objects and waits. */
const SYNCED: SyncState = {
  phase: WAITING,
  complete: true,
  stale: false,
  changed: false,
  unfinished: false,
  repair: false,
  full: undefined,
  failures: 0,
  lastSync: 400,
  durations: [],
  lastFull: 300,
};

function full(cause: FullCause): Phase {
  return { name: "full", since: 500, cause };
}

function starts(hasPartial: boolean): SyncEvent {
  return { type: "sync-started", at: 500, hasPartial, isUnfinished: false };
}

function fails(failure: Extract<SyncEvent, { type: "failed" }>["failure"]): SyncEvent {
  return { type: "failed", at: 900, failure };
}

function checksPeriod(at: number): SyncEvent {
  return { type: "period-checked", at, fullSyncPeriod: 60_000 };
}

const APPLIED: SyncEvent = { type: "applied", at: 900 };
const REQUEST: SyncEvent = { type: "full-requested", reason: "drift" };
const DRIFT: FullCause = { requested: "drift" };

/** One transition: how `from` differs from `SYNCED`, what happens, and what of it is another then. */
interface Transition {
  readonly name: string;
  readonly from?: Partial<SyncState>;
  readonly event: SyncEvent;
  readonly to: Partial<SyncState>;
}

const TRANSITIONS: readonly Transition[] = [
  {
    name: "a change is wanted",
    event: { type: "changed" },
    to: { changed: true },
  },
  {
    name: "the first change of complete sources makes them complete",
    from: { complete: false, stale: true },
    event: { type: "changed" },
    to: { complete: true, changed: true },
  },
  {
    name: "a change while a sync runs is for the next one",
    from: { phase: PARTIAL },
    event: { type: "changed" },
    to: { changed: true },
  },
  {
    name: "a round is wanted though sources are silent, for a state file's rules",
    from: { complete: false, stale: true },
    event: { type: "round-requested" },
    to: { changed: true },
  },
  {
    name: "a full sync is requested, with its reason",
    event: REQUEST,
    to: { full: DRIFT },
  },
  {
    name: "the first cause of a full sync stays",
    from: { full: "sync-failed" },
    event: REQUEST,
    to: {},
  },
  {
    name: "a request while a full script is applied is for the next sync",
    from: { phase: full("period") },
    event: REQUEST,
    to: { full: DRIFT },
  },
  {
    name: "a repair is wanted",
    event: { type: "repair-requested" },
    to: { repair: true },
  },
  {
    name: "a repair takes on what is wanted so far",
    from: { repair: true },
    event: { type: "repair-started", at: 500 },
    to: { phase: REPAIR, repair: false },
  },
  {
    name: "a repair that is done leads to what has changed",
    from: { phase: REPAIR, changed: true },
    event: { type: "repair-ended", at: 600, isDone: true },
    to: { phase: WAITING, changed: true },
  },
  {
    name: "a repair that is done is the sync where nothing has changed, and may be wanted again",
    from: { phase: REPAIR, repair: true },
    event: { type: "repair-ended", at: 600, isDone: true },
    to: {
      phase: { name: "after-sync", since: 500 },
      repair: true,
      lastSync: 600,
      durations: [100],
    },
  },
  {
    name: "a repair that does not suffice leads to a full sync",
    from: { phase: REPAIR },
    event: { type: "repair-ended", at: 600, isDone: false },
    to: { phase: WAITING, full: DRIFT },
  },
  {
    name: "a full sync is the repair",
    from: { repair: true, full: "period" },
    event: starts(false),
    to: { phase: full("period"), repair: false, full: undefined },
  },
  {
    name: "the full sync period is not over yet",
    event: checksPeriod(60_299),
    to: {},
  },
  {
    name: "the full sync period is over",
    event: checksPeriod(60_300),
    to: { full: "period" },
  },
  {
    name: "before the first full sync the period is never over",
    from: { lastFull: undefined },
    event: checksPeriod(1e12),
    to: {},
  },
  {
    name: "the state file's rules come with the full sync of the start",
    from: { phase: { name: "starting", since: 0 }, complete: false, full: "start" },
    event: { type: "restored" },
    to: { stale: true },
  },
  {
    name: "the loop runs",
    from: { phase: { name: "starting", since: 0 } },
    event: { type: "running" },
    to: { phase: WAITING },
  },
  {
    name: "a sync of what changed is partial",
    from: { changed: true },
    event: starts(true),
    to: { phase: PARTIAL, changed: false },
  },
  {
    name: "a sync of what no partial script can make is full",
    from: { changed: true },
    event: starts(false),
    to: { phase: full("no-partial"), changed: false },
  },
  {
    name: "a full sync takes on the changes, too",
    from: { changed: true, full: DRIFT },
    event: starts(false),
    to: { phase: full(DRIFT), changed: false, full: undefined },
  },
  {
    name: "the sync after the sources are complete is about them",
    from: { stale: true, changed: true },
    event: starts(true),
    to: { phase: PARTIAL, stale: false, changed: false },
  },
  {
    name: "a repair while sources are silent keeps the state file's rules",
    from: { complete: false, stale: true, full: DRIFT },
    event: starts(false),
    to: { phase: full(DRIFT), full: undefined },
  },
  {
    name: "no sync starts within another",
    from: { phase: PARTIAL, changed: true },
    event: starts(true),
    to: {},
  },
  {
    name: "the kernel took a partial script",
    from: { phase: PARTIAL, failures: 2 },
    event: APPLIED,
    to: { phase: AFTER, failures: 0, lastSync: 900, durations: [400] },
  },
  {
    name: "a request during a partial sync outlives it",
    from: { phase: PARTIAL, full: DRIFT },
    event: APPLIED,
    to: { phase: AFTER, lastSync: 900, durations: [400] },
  },
  {
    name: "the kernel took a full script: the full sync period begins",
    from: { phase: full("sync-failed"), failures: 2 },
    event: APPLIED,
    to: { phase: AFTER, failures: 0, lastSync: 900, durations: [400], lastFull: 900 },
  },
  {
    name: "a partial script failed: a full one follows at once",
    from: { phase: PARTIAL },
    event: fails("conflict"),
    to: { phase: full("partial-failed") },
  },
  {
    name: "that full script serves requests so far, but not changes",
    from: { phase: PARTIAL, changed: true, full: DRIFT },
    event: fails("conflict"),
    to: { phase: full("partial-failed"), full: undefined },
  },
  {
    name: "the program failed: it is not asked again before a pause",
    from: { phase: PARTIAL },
    event: fails("program-failed"),
    to: { phase: AFTER, full: "sync-failed", failures: 1, lastSync: 900, durations: [400] },
  },
  {
    name: "a full script failed: the next sync is full, after a longer pause",
    from: { phase: full("partial-failed"), failures: 3, changed: true },
    event: fails("busy"),
    to: { phase: AFTER, full: "sync-failed", failures: 4, lastSync: 900, durations: [400] },
  },
  {
    name: "what follows a sync is done",
    from: { phase: AFTER, changed: true },
    event: { type: "followed" },
    to: { phase: WAITING },
  },
  { name: "nothing is applied while the loop waits", event: APPLIED, to: {} },
  { name: "nothing fails while the loop waits", event: fails("busy"), to: {} },
];

for (const { name, from, event, to } of TRANSITIONS) {
  Deno.test(`sync state: ${name}`, () => {
    const before = { ...SYNCED, ...from };
    assertEquals(next(before, event), { ...before, ...to });
  });
}

Deno.test("a new loop is busy, and its first sync is full", () => {
  const state = initialState(7);
  assertEquals([state.phase, state.full], [{ name: "starting", since: 7 }, "start"]);
});

Deno.test("without objects there is nothing to sync, whatever is wanted", () => {
  const wanted = { ...SYNCED, changed: true, full: DRIFT };
  assertEquals(hasWork({ ...wanted, complete: false }), false);
  assertEquals(hasWork({ ...wanted, complete: false, stale: true }), true);
  assertEquals(hasWork(SYNCED), false);
});

Deno.test("the plan: wait for the full sync period, or sync after a pause", () => {
  const after = (changes: Partial<SyncState>, periods = PERIODS) => {
    const { action, at } = plan({ ...SYNCED, ...changes }, periods);
    return [action, at - SYNCED.lastSync];
  };
  assertEquals(after({}), ["wait", 59_900]);
  assertEquals(after({ lastFull: undefined }), ["wait", Infinity]);
  assertEquals(after({ changed: true }), ["sync", 1_000]);
  assertEquals(after({ full: DRIFT }), ["sync", 100]);
  assertEquals(after({ full: DRIFT }, { ...PERIODS, minSyncPeriod: 0 }), ["sync", 0]);
  const pauses = [1, 2, 3, 4, 5, 6, 100].map((failures) =>
    after({ full: "sync-failed", failures })
  );
  assertEquals(
    pauses,
    [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].map((pause) => ["sync", pause]),
  );
  const slow = { ...PERIODS, minSyncPeriod: 45_000 };
  assertEquals(after({ full: "sync-failed", failures: 1 }, slow), ["sync", 45_000]);
  const adaptive: SyncPeriods = { ...PERIODS, minSyncPeriod: "adaptive" };
  const took = (duration: number) => ({ durations: [duration, duration, duration] });
  assertEquals(after({ changed: true }, adaptive), ["sync", 0]);
  assertEquals(after({ changed: true, ...took(9) }, adaptive), ["sync", 36]);
  assertEquals(after({ full: DRIFT, ...took(9) }, adaptive), ["sync", 36]);
  assertEquals(after({ repair: true, ...took(90) }, adaptive), ["sync", 100]);
  assertEquals(after({ full: "sync-failed", failures: 1, ...took(9) }, adaptive), ["sync", 1_000]);
});

Deno.test("what syncs took is forgotten after a quiet second", () => {
  const start = (at: number) =>
    next({ ...SYNCED, durations: [7] }, {
      type: "sync-started",
      at,
      hasPartial: true,
      isUnfinished: false,
    }).durations;
  assertEquals([start(500), start(1_400), start(1_401)], [[7], [7], []]);
});

Deno.test("each cause of a full sync has its words in the log", () => {
  const causes = ["start", "period", "sync-failed", "partial-failed", "no-partial", DRIFT] as const;
  assertEquals(causes.map((cause) => describeFull(full(cause))), [
    "start",
    "full sync period",
    "the last sync failed",
    "the partial sync failed",
    "the node changed, or very much",
    "drift",
  ]);
  assertEquals([PARTIAL, WAITING].map(describeFull), [undefined, undefined]);
});
