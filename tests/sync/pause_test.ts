import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { adaptivePause, LONGEST_PAUSE, withDuration } from "../../lib/sync/state.ts";

Deno.test("syncs of 8 ms have pauses of 32 ms: a fifth of the time", () => {
  assertAlmostEquals(adaptivePause([8, 8, 8]), 32);
});

Deno.test("before the first sync there is no pause, and after it a short one", () => {
  assertEquals(adaptivePause([]), 0);
  assertAlmostEquals(adaptivePause([9]), 12);
  assertAlmostEquals(adaptivePause([9, 9]), 24);
});

Deno.test("a slow kernel has pauses of a second, never longer ones", () => {
  assertEquals(adaptivePause([300, 300, 300]), 1_000);
  assertEquals(adaptivePause([20_000, 20_000, 20_000]), 1_000);
});

Deno.test("one slow sync is paid for in three pauses, and then forgotten", () => {
  let durations: readonly number[] = [8, 8, 8];
  const pauses = [200, 8, 8, 8].map((duration) => {
    durations = withDuration(durations, duration);
    return Math.round(adaptivePause(durations));
  });
  assertEquals(pauses, [288, 288, 288, 32]);
});

Deno.test("after a full sync of 20 s, changes wait for a third of a second each", () => {
  assertEquals(Math.round(adaptivePause([20_000])), 333);
  assertEquals(Math.round(adaptivePause([8, 8, 20_000])), 355);
});

Deno.test("no more than a fifth of the time is spent in syncs, whatever they take, from a quiet second on", () => {
  // The same numbers each time: a linear congruential generator.
  let seed = 7;
  const random = () => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;
  for (let run = 0; run < 200; run++) {
    let durations: readonly number[] = [];
    let [busy, elapsed] = [0, LONGEST_PAUSE];
    for (let sync = 0; sync < 20; sync++) {
      assert(busy <= elapsed / 5 + 1e-6, `${busy} of ${elapsed} ms`);
      const duration = random() ** 3 * 250;
      busy += duration;
      elapsed += duration;
      durations = withDuration(durations, duration);
      elapsed += adaptivePause(durations);
    }
  }
});
