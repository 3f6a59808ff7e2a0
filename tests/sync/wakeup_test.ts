import { assertEquals } from "@std/assert";
import { Wakeup } from "../../lib/sync/wakeup.ts";
import { ManualClock, settle } from "../support/clock_and_log.ts";

/** A bell with a sleeper, and whether it sleeps still. */
function sleeper(milliseconds: number) {
  const clock = new ManualClock();
  const wakeup = new Wakeup(clock);
  const state = { clock, wakeup, awake: false };
  const sleep = () => {
    state.awake = false;
    void wakeup.wait(milliseconds).then(() => {
      state.awake = true;
    });
    return settle();
  };
  return { ...state, state, sleep };
}

Deno.test("the sleeper wakes when the time is over", async () => {
  const { clock, state, sleep } = sleeper(100);
  await sleep();
  await clock.advance(99);
  assertEquals(state.awake, false);
  await clock.advance(1);
  assertEquals(state.awake, true);
});

Deno.test("the sleeper wakes when somebody rings, and the bell is silent again", async () => {
  const { wakeup, state, sleep } = sleeper(Infinity);
  await sleep();
  wakeup.wake();
  wakeup.wake();
  await settle();
  assertEquals(state.awake, true);
  await sleep();
  assertEquals(state.awake, false);
});

Deno.test("a ring while nobody sleeps ends the next sleep before it begins, and only that", async () => {
  const { wakeup, state, sleep } = sleeper(100);
  wakeup.wake();
  wakeup.wake();
  await sleep();
  assertEquals(state.awake, true);
  await sleep();
  assertEquals(state.awake, false);
});

Deno.test("no sleep is longer than a timer can hold", async () => {
  const { clock, sleep } = sleeper(Infinity);
  await sleep();
  assertEquals(clock.sleeps, [2 ** 31 - 1]);
});
