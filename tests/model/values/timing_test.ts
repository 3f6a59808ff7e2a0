import { assertEquals } from "@std/assert";
import { Backoff, delayAfter } from "../../../lib/model/values/timing.ts";

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
