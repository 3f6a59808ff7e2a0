import { assertEquals, assertMatch } from "@std/assert";
import { DriftRepairs } from "../../lib/daemon/foreign_programs.ts";
import type { Drift } from "../../lib/model/kernel/differences.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";

const DRIFT: Drift = { missing: "the whole table", added: "", by: "nft (pid 4711)" };

class Fixture {
  readonly clock = new ManualClock();
  readonly logger = new MemoryLogger();
  readonly stop = new AbortController();
  repairs = 0;
  readonly #repairs = new DriftRepairs({
    clock: this.clock,
    logger: this.logger,
    repair: () => this.repairs++,
    signal: this.stop.signal,
  });

  async report(): Promise<void> {
    void this.#repairs.report(DRIFT);
    await settle();
  }
}

Deno.test("drift is repaired at once, and the log names who did it", async () => {
  const fixture = new Fixture();
  await fixture.report();
  assertEquals(fixture.repairs, 1);
  assertMatch(JSON.stringify(fixture.logger.at("warn")), /another program has changed our rules/);
});

Deno.test("after five in a row, repairs come later each time, up to 30 s", async () => {
  const fixture = new Fixture();
  for (let times = 1; times <= 5; times++) {
    await fixture.report();
    assertEquals(fixture.repairs, times);
  }
  for (const [i, delay] of [1, 2, 4, 8, 16, 30, 30].entries()) {
    await fixture.report();
    await fixture.clock.advance(delay * 1_000 - 1);
    assertEquals(fixture.repairs, 5 + i, `before ${delay} s`);
    await fixture.clock.advance(1);
    assertEquals(fixture.repairs, 6 + i, `after ${delay} s`);
  }
});

Deno.test("what comes while a repair waits is one repair and no more lines", async () => {
  const fixture = new Fixture();
  for (let times = 0; times < 5; times++) await fixture.report();
  for (let times = 0; times < 100; times++) await fixture.report();
  assertEquals([fixture.repairs, fixture.logger.at("warn").length], [5, 6]);
  await fixture.clock.advance(1_000);
  assertEquals(fixture.repairs, 6);
});

Deno.test("after half a minute of peace, drift is repaired at once again", async () => {
  const fixture = new Fixture();
  for (let times = 0; times < 5; times++) await fixture.report();
  await fixture.clock.advance(30_001);
  await fixture.report();
  assertEquals(fixture.repairs, 6);
});

Deno.test("a daemon that stops repairs no more", async () => {
  const fixture = new Fixture();
  for (let times = 0; times < 6; times++) await fixture.report();
  fixture.stop.abort();
  await settle();
  await fixture.clock.advance(60_000);
  assertEquals(fixture.repairs, 5);
});
