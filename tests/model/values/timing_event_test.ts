import { assertEquals } from "@std/assert";
import { AutoResetEvent } from "../../../lib/model/values/timing.ts";
import { ManualClock, settle } from "../../support/clock_and_log.ts";

/** An event with a waiter, and whether the wait has ended. */
function waiter(milliseconds: number) {
  const clock = new ManualClock();
  const event = new AutoResetEvent(clock);
  const state = { clock, event, ended: false };
  const wait = () => {
    state.ended = false;
    void event.wait(milliseconds).then(() => {
      state.ended = true;
    });
    return settle();
  };
  return { ...state, state, wait };
}

Deno.test("a wait ends when the time is over", async () => {
  const { clock, state, wait } = waiter(100);
  await wait();
  await clock.advance(99);
  assertEquals(state.ended, false);
  await clock.advance(1);
  assertEquals(state.ended, true);
});

Deno.test("a wait ends when the event is set, which resets it", async () => {
  const { event, state, wait } = waiter(Infinity);
  await wait();
  event.set();
  event.set();
  await settle();
  assertEquals(state.ended, true);
  await wait();
  assertEquals(state.ended, false);
});

Deno.test("an event that is set early ends only the next wait", async () => {
  const { event, state, wait } = waiter(100);
  event.set();
  event.set();
  await wait();
  assertEquals(state.ended, true);
  await wait();
  assertEquals(state.ended, false);
});
