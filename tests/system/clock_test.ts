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
