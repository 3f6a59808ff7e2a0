import { assertEquals } from "@std/assert";
import { Backoff, delayAfter } from "../../../lib/model/values/timing.ts";
import { IdleLimit } from "../../../lib/source/api/api_client.ts";
import { ManualClock } from "../../support/clock_and_log.ts";

const LIMITS = { first: 250, longest: 30_000 };

Deno.test("waiting times double up to the longest, and start again after a success", () => {
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

Deno.test("an idle limit strikes once, after the last sign of life, by monotonic time", async () => {
  const clock = new ManualClock();
  let strikes = 0;
  const limit = new IdleLimit(100, { clock, onIdle: () => strikes++ });
  await clock.advance(60);
  limit.touch();
  await clock.advance(60);
  limit.touch();
  await clock.advance(99);
  assertEquals(strikes, 0);
  await clock.advance(1);
  await clock.advance(1000);
  assertEquals(strikes, 1);
});

Deno.test("a stopped idle limit never strikes", async () => {
  const clock = new ManualClock();
  let strikes = 0;
  new IdleLimit(100, { clock, onIdle: () => strikes++ }).stop();
  await clock.advance(1000);
  assertEquals(strikes, 0);
});
