import { assertEquals } from "@std/assert";
import {
  StateKeeper,
  type StateKeeperOptions,
  type WriteTerms,
} from "../../../lib/source/saved/keeper.ts";
import { ManualClock, MemoryLogger, settle, START } from "../../support/clock_and_log.ts";

interface Write extends WriteTerms {
  /** Monotonic time of its start. */
  readonly at: number;
  readonly finish: () => void;
  readonly fail: (message: string) => void;
}

/** A keeper with a writer whose writes end when the test says so. */
function setUp(options: Partial<StateKeeperOptions> = {}) {
  const clock = new ManualClock(START);
  const logger = new MemoryLogger();
  const writes: Write[] = [];
  const running = { now: 0, most: 0 };
  const keeper = new StateKeeper({
    clock,
    logger,
    write: async (terms) => {
      running.most = Math.max(running.most, ++running.now);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const fail = (message: string) => reject(new Error(message));
      writes.push({ ...terms, at: clock.monotonic(), finish: resolve, fail });
      try {
        await promise;
      } finally {
        running.now--;
      }
    },
    ...options,
  });
  const last = async (end: (write: Write) => void) => {
    const write = writes.at(-1);
    if (write === undefined) throw new Error("nothing was written");
    end(write);
    await settle();
  };
  return {
    /** Reports a change and waits for its write to begin. */
    written: () => {
      keeper.changed();
      return clock.advance(5_000);
    },
    clock,
    logger,
    keeper,
    writes,
    running,
    finish: () => last((write) => write.finish()),
    fail: (message: string) => last((write) => write.fail(message)),
    times: () => writes.map(({ at }) => at),
  };
}

Deno.test("without a change nothing is written, not even at a stop", async () => {
  const { keeper, clock, writes } = setUp();
  await clock.advance(3_600_000);
  await keeper.stop();
  assertEquals(writes, []);
});

Deno.test("the first write comes some seconds after the first change", async () => {
  const { keeper, clock, times } = setUp();
  await clock.advance(1_000);
  for (let i = 0; i < 49; i++) {
    keeper.changed();
    await clock.advance(100);
  }
  assertEquals(times(), []);
  await clock.advance(100);
  assertEquals(times(), [6_000]);
  await clock.advance(100_000);
  assertEquals(times().length, 1);
});

Deno.test("a cluster that never rests is written once in each period", async () => {
  const { keeper, clock, writes, times } = setUp();
  for (let tick = 0; tick < 50; tick++) {
    keeper.changed();
    await clock.advance(5_000);
    writes.at(-1)?.finish();
    await settle();
  }
  assertEquals(times(), [5_000, 65_000, 125_000, 185_000, 245_000]);
});

Deno.test("after a rest a change is written soon again", async () => {
  const { written, keeper, clock, finish, times } = setUp();
  await written();
  await finish();
  await clock.advance(100_000);
  keeper.changed();
  await clock.advance(4_999);
  assertEquals(times(), [5_000]);
  await clock.advance(1);
  assertEquals(times(), [5_000, 110_000]);
});

Deno.test("never two writes at once: a change during a long write waits for the next one", async () => {
  const { written, keeper, clock, finish, times, running } = setUp();
  await written();
  for (let minute = 0; minute < 5; minute++) {
    keeper.changed();
    await clock.advance(60_000);
  }
  assertEquals(times(), [5_000]);
  await finish();
  await clock.advance(599_999);
  assertEquals(times(), [5_000]);
  await clock.advance(1);
  assertEquals(times(), [5_000, 905_000]);
  assertEquals(running.most, 1);
});

Deno.test("the pause after a long write is as long as the write", async () => {
  const { written, keeper, clock, finish, times } = setUp();
  await written();
  keeper.changed();
  await clock.advance(2_000);
  await finish();
  await clock.advance(99_999);
  assertEquals(times(), [5_000]);
  await clock.advance(1);
  assertEquals(times(), [5_000, 107_000]);
  keeper.changed();
  await clock.advance(500);
  await finish();
  await clock.advance(59_999);
  assertEquals(times().length, 2);
  await clock.advance(1);
  assertEquals(times().length, 3);
});

Deno.test("a write rests between its batches", async () => {
  const { written, clock, writes } = setUp();
  await written();
  const [write] = writes;
  assertEquals(write?.written, START + 5_000);
  let rested = false;
  void write?.pause().then(() => rested = true);
  await settle();
  assertEquals(rested, false);
  await clock.advance(10);
  assertEquals(rested, true);
});

Deno.test("a failure is logged once until it changes", async () => {
  const { written, clock, fail, finish, logger, times } = setUp();
  const kept = "the state file is not written: ";
  await written();
  for (const reason of ["no folder", "no folder", "no space", "no folder"]) {
    await fail(reason);
    await clock.advance(60_000);
  }
  assertEquals(logger.messages, [`${kept}no folder`, `${kept}no space`, `${kept}no folder`]);
  await finish();
  assertEquals(logger.messages.slice(3), ["the state file is written again"]);
  assertEquals(logger.entries.map(({ level }) => level), ["warn", "warn", "warn", "info"]);
  await clock.advance(3_600_000);
  assertEquals(times(), [5_000, 65_000, 125_000, 185_000, 245_000]);
});

Deno.test("a stop writes at once what waits", async () => {
  const { keeper, clock, finish, times, writes } = setUp();
  keeper.changed();
  await clock.advance(1_000);
  const stopped = keeper.stop();
  await settle();
  assertEquals(times(), [1_000]);
  await writes[0]?.pause();
  await finish();
  await stopped;
  keeper.changed();
  await clock.advance(3_600_000);
  assertEquals(times(), [1_000]);
});

Deno.test("a stop after everything was written writes nothing", async () => {
  const { written, keeper, finish, times, logger } = setUp();
  await written();
  await finish();
  await keeper.stop();
  assertEquals([times(), logger.messages], [[5_000], []]);
});

Deno.test("a stop lets the running write end", async () => {
  const { written, keeper, clock, finish, times, running } = setUp();
  await written();
  keeper.changed();
  const stopped = keeper.stop();
  await settle();
  assertEquals(times(), [5_000]);
  await clock.advance(500);
  await finish();
  assertEquals(times(), [5_000, 5_500]);
  await finish();
  await stopped;
  assertEquals(running.most, 1);
});

Deno.test("a write that rests when the stop comes goes on without rests", async () => {
  const { written, keeper, finish, writes } = setUp();
  await written();
  const resting = writes[0]?.pause();
  const stopped = keeper.stop();
  await resting;
  await writes[0]?.pause();
  await finish();
  await stopped;
});

Deno.test("a stop does not wait for a write that hangs", async () => {
  const { written, keeper, clock, writes } = setUp();
  await written();
  const stopped = keeper.stop();
  await clock.advance(4_999);
  assertEquals(writes[0]?.signal.aborted, false);
  await clock.advance(1);
  await stopped;
  assertEquals(writes[0]?.signal.aborted, true);
});

Deno.test("a stop is not held up by a write that fails", async () => {
  const { keeper, fail, logger } = setUp();
  keeper.changed();
  const stopped = keeper.stop();
  await settle();
  await fail("no space");
  await stopped;
  assertEquals(logger.messages.length, 1);
});

Deno.test("the age is counted from the start of the last write that succeeded", async () => {
  const { written, keeper, clock, finish, fail } = setUp();
  assertEquals(keeper.age(), undefined);
  await written();
  assertEquals(keeper.age(), undefined);
  await clock.advance(1_000);
  await finish();
  assertEquals(keeper.age(), 1);
  keeper.changed();
  await clock.advance(60_000);
  await fail("no space");
  assertEquals(keeper.age(), 61);
});

Deno.test("the age of a file that was found at the start counts from when it was written", () => {
  const { keeper } = setUp();
  keeper.found(START - 90_000);
  assertEquals(keeper.age(), 90);
});

Deno.test("a file from the future, by a clock that was set back, has age 0", async () => {
  const { keeper, clock } = setUp();
  keeper.found(START + 3_600_000);
  assertEquals(keeper.age(), 0);
  await clock.advance(7_000);
  assertEquals(keeper.age(), 7);
});
