import { assertEquals } from "@std/assert";
import { SystemClock } from "../../lib/system/clock.ts";

Deno.test("a sleep that is longer than a timer can be ends by its signal", async () => {
  const clock = new SystemClock();
  for (const milliseconds of [2 ** 31, 4 * 30 * 86_400_000, Infinity]) {
    const stop = new AbortController();
    let slept = false;
    const sleeping = clock.sleep(milliseconds, stop.signal).then(() => slept = true);
    // A timer that does not fit is one of 1 ms.
    await clock.sleep(20);
    assertEquals(slept, false, `${milliseconds} ms`);
    stop.abort();
    await sleeping;
  }
});

Deno.test("sockets are read between any two pieces of long work", async () => {
  const clock = new SystemClock();
  let turn = 0;
  let isOver = false;
  const count = () => {
    turn++;
    if (!isOver) setImmediate(count);
  };
  count();
  const resumedIn: number[] = [];
  const work = async () => {
    for (let piece = 0; piece < 5; piece++) {
      await clock.sleep(0);
      resumedIn.push(turn);
      // Longer than a timer, so that the timers of all others are due.
      for (const began = clock.monotonic(); clock.monotonic() - began < 3;);
    }
  };
  await Promise.all([work(), work(), work()]);
  isOver = true;
  assertEquals(new Set(resumedIn).size, resumedIn.length, `${resumedIn}`);
});
