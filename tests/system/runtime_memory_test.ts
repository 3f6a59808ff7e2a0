import { assert, assertEquals } from "@std/assert";
import { memoryRelease } from "../../lib/system/runtime.ts";
import { ManualClock } from "../support/clock_and_log.ts";
import { run } from "../support/command.ts";

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

Deno.test("20 seconds later, any work gives back what malloc has free", async () => {
  const bench = new Bench();
  const rest = async (milliseconds: number) => {
    bench.work(0);
    await bench.clock.advance(milliseconds);
    return bench.collections;
  };
  assertEquals(await rest(1_000), 1);
  assertEquals(await rest(19_500), 1);
  assertEquals(await rest(1_000), 2);
});

Deno.test("a large heap is left to V8: to look through it would block the event loop", async () => {
  const bench = new Bench();
  bench.live = 31e6;
  bench.work();
  await bench.clock.advance(1_000);
  await bench.clock.advance(15_000);
  assertEquals(bench.collections, 0);
});

Deno.test("a small heap with many unused objects is collected after V8 has made it smaller", async () => {
  const bench = new Bench();
  bench.work(21e6);
  await bench.clock.advance(1_000);
  assertEquals(bench.collections, 0);
  bench.unused = 5e6;
  await bench.clock.advance(15_000);
  assertEquals(bench.collections, 1);
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

/** Frees 59 of 60 MB in fragments, gives memory back, and prints how many MB more the process then has. */
const FRAGMENTS = `
import { systemRuntime } from "${new URL("../../lib/system/runtime.ts", import.meta.url)}";
const { rss } = Deno.memoryUsage();
const parts = Array.from({ length: 60_000 }, () => new Uint8Array(1_000));
const kept = parts.filter((_, i) => i % 50 === 0);
parts.length = 0;
systemRuntime().releaseMemory(new AbortController().signal);
await new Promise((resolve) => setTimeout(resolve, 2_000));
console.log((Deno.memoryUsage().rss - rss) / 1e6, kept.length);
Deno.exit(0);
`;

/** Returns the megabytes that `FRAGMENTS` prints. @throws {Error} if a signal ends it */
async function fragmentsLeft(env: Readonly<Record<string, string>>): Promise<number> {
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const flags = ["-qP", "--no-check", "--v8-flags=--expose-gc", "--config", config];
  return parseFloat(await run([Deno.execPath(), "run", ...flags, "-"], { env, stdin: FRAGMENTS }));
}

Deno.test("fragments of malloc are given back with DENO_USR2_MEMORY_TRIM", async () => {
  const left = await fragmentsLeft({ DENO_USR2_MEMORY_TRIM: "1" });
  assert(left < 40, `${left}`);
});

Deno.test("without DENO_USR2_MEMORY_TRIM the signal does not end signpost", async () => {
  assert(await fragmentsLeft({}) > 0);
});
