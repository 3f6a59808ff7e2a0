import { assertEquals } from "@std/assert";
import { AutoResetEvent, Backoff, delayAfter } from "../../../lib/model/values/timing.ts";
import { ManualClock, settle } from "../../support/clock_and_log.ts";

const LIMITS = { first: 250, longest: 30_000 };

Deno.test("waiting times double up to the longest", () => {
  const backoff = new Backoff(LIMITS, () => 1);
  const waits = Array.from({ length: 9 }, () => backoff.next());
  assertEquals(waits, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  backoff.reset();
  assertEquals(backoff.next(), 250);
});

Deno.test("waiting times are spread over the upper half of their range", () => {
  assertEquals(new Backoff(LIMITS, () => 0).next(), 125);
  assertEquals(new Backoff(LIMITS, () => 0.5).next(), 187.5);
});

Deno.test("without a source of chance, waiting times are those of the doubling", () => {
  const backoff = new Backoff(LIMITS);
  assertEquals([backoff.next(), backoff.next(), backoff.next()], [250, 500, 1000]);
  assertEquals([0, 1, 6, 7, 5000].map((others) => delayAfter(LIMITS, others)), [
    250,
    500,
    16_000,
    30_000,
    30_000,
  ]);
});

Deno.test("what the server asks for is waited at least, spread a little", () => {
  assertEquals(new Backoff(LIMITS, () => 0).next(7000), 7000);
  assertEquals(new Backoff(LIMITS, () => 1).next(7000), 7250);
});

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
