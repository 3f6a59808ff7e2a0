import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { Limiter } from "../../lib/model/values/timing.ts";
import { LONGEST_PAUSE, REPAIRS, SyncPauses } from "../../lib/sync/sync.ts";

/** Pauses after syncs that took so long, one right after the other. */
function after(durations: readonly number[], minSyncPeriod: number | "adaptive" = "adaptive") {
  const pauses = new SyncPauses(minSyncPeriod);
  for (const duration of durations) pauses.end(duration, { began: 0, isFailed: false });
  return pauses;
}

function adaptivePause(durations: readonly number[]): number {
  return after(durations).usual;
}

Deno.test("syncs of 8 ms have pauses of 32 ms: a fifth of the time", () => {
  assertAlmostEquals(adaptivePause([8, 8, 8]), 32);
});

Deno.test("the first sync has no pause before it", () => {
  assertEquals(adaptivePause([]), 0);
  assertAlmostEquals(adaptivePause([9]), 12);
  assertAlmostEquals(adaptivePause([9, 9]), 24);
});

Deno.test("a slow kernel has pauses of a second, never longer ones", () => {
  assertEquals(adaptivePause([300, 300, 300]), 1_000);
  assertEquals(adaptivePause([20_000, 20_000, 20_000]), 1_000);
});

Deno.test("one slow sync makes three pauses longer", () => {
  const pauses = after([8, 8, 8]);
  const following = [200, 8, 8, 8].map((duration) => {
    pauses.end(duration, { began: 0, isFailed: false });
    return Math.round(pauses.usual);
  });
  assertEquals(following, [288, 288, 288, 32]);
});

Deno.test("after a full sync of 20 s, changes wait for a third of a second each", () => {
  assertEquals(Math.round(adaptivePause([20_000])), 333);
  assertEquals(Math.round(adaptivePause([8, 8, 20_000])), 355);
});

Deno.test("syncs take at most a fifth of the time", () => {
  // The same numbers each time: a linear congruential generator.
  let seed = 7;
  const random = () => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;
  for (let run = 0; run < 200; run++) {
    const durations: number[] = [];
    let [busy, elapsed] = [0, LONGEST_PAUSE];
    for (let sync = 0; sync < 20; sync++) {
      assert(busy <= elapsed / 5 + 1e-6, `${busy} of ${elapsed} ms`);
      const duration = random() ** 3 * 250;
      busy += duration;
      elapsed += duration;
      durations.push(duration);
      elapsed += adaptivePause(durations);
    }
  }
});

Deno.test("the durations of syncs are forgotten after a quiet second", () => {
  const pauseAt = (now: number) => {
    const pauses = after([9, 9, 9]);
    pauses.begin(now);
    return pauses.usual;
  };
  assertEquals([9, 1_009, 1_010].map(pauseAt), [36, 36, 0]);
});

Deno.test("the next sync follows a pause that an urgent one shortens", () => {
  const next = (minSyncPeriod: number | "adaptive", took: number, is = {}) =>
    after([took, took, took], minSyncPeriod)
      .next({ isUrgent: false, isUnfinished: false, ...is }) - took;
  assertEquals([next(1_000, 9), next("adaptive", 9)], [1_000, 36]);
  const urgent = { isUrgent: true };
  assertEquals(
    [next(1_000, 9, urgent), next(0, 9, urgent), next("adaptive", 9, urgent)],
    [100, 0, 36],
  );
  assertEquals(next(1_000, 9, { isUnfinished: true }), 0);
});

Deno.test("after failures the pauses double, from one second up to 30 s", () => {
  const pausesOf = (minSyncPeriod: number) => {
    const pauses = new SyncPauses(minSyncPeriod);
    return Array.from({ length: 7 }, () => {
      pauses.end(5, { began: 0, isFailed: true });
      return pauses.next({ isUrgent: true, isUnfinished: true }) - 5;
    });
  };
  assertEquals(pausesOf(1_000), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  assertEquals(pausesOf(45_000)[0], 45_000);
});

Deno.test("after five repairs in a row, repairs come later each time, up to 30 s", () => {
  const pauses = new Limiter(REPAIRS);
  let now = 0;
  const next = () => {
    const { pause, at } = pauses.next(now);
    now = at;
    return pause;
  };
  assertEquals(Array.from({ length: 5 }, next), [0, 0, 0, 0, 0]);
  assertEquals(
    Array.from({ length: 7 }, next),
    [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000],
  );
  now += 30_001;
  assertEquals(next(), 0);
});
