import { assertEquals } from "@std/assert";
import { memoryRelease } from "../../lib/system/runtime.ts";
import { ManualClock } from "../support/clock_and_log.ts";

/** A heap that holds what each piece of work leaves until a collection. */
class Bench {
  readonly clock = new ManualClock();
  readonly stop = new AbortController();
  live = 10e6;
  unused = 0;
  collections = 0;
  readonly release = memoryRelease(this.clock, {
    used: () => this.live + this.unused,
    taken: () => this.live + this.unused,
    collect: () => {
      this.unused = 0;
      this.collections++;
    },
  });

  work(bytes = 2e6): void {
    this.unused += bytes;
    this.release(this.stop.signal);
  }
}

Deno.test("memory is given back a second after the last of several pieces of work", async () => {
  const bench = new Bench();
  for (let i = 0; i < 5; i++) {
    bench.work();
    await bench.clock.advance(900);
  }
  assertEquals(bench.collections, 0);
  await bench.clock.advance(100);
  assertEquals(bench.collections, 1);
  await bench.clock.advance(60_000);
  assertEquals(bench.collections, 1);
});

Deno.test("memory is not collected for less than 1.5 megabytes of new objects", async () => {
  const bench = new Bench();
  const rest = async (bytes: number) => {
    bench.work(bytes);
    await bench.clock.advance(1_000);
    return bench.collections;
  };
  assertEquals(await rest(2e6), 1);
  assertEquals(await rest(600e3), 1);
  assertEquals(await rest(600e3), 1);
  assertEquals(await rest(600e3), 2);
});

Deno.test("a large heap is left to V8: to look through it would block the event loop", async () => {
  const bench = new Bench();
  bench.live = 31e6;
  bench.work();
  await bench.clock.advance(1_000);
  assertEquals(bench.collections, 0);
});

Deno.test("a daemon that stops does not look for memory", async () => {
  const bench = new Bench();
  bench.work();
  bench.stop.abort();
  await bench.clock.advance(2_000);
  assertEquals(bench.collections, 0);
});

Deno.test("thousands of pieces of work wait with one timer", async () => {
  const bench = new Bench();
  for (let i = 0; i < 5_000; i++) bench.work(1e3);
  assertEquals(bench.clock.sleeps.length, 1);
  await bench.clock.advance(1_000);
  assertEquals(bench.collections, 1);
});
