import { assertEquals, assertMatch } from "@std/assert";
import { isServedByKubeProxy } from "../../lib/daemon/objects/saved_state.ts";
import { tellOfWaiting } from "../../lib/daemon/reports/service_manager.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";

Deno.test("30 s without a first sync are told of, with what is waited for", async () => {
  for (
    const [missing, pattern] of [
      [["Service", "Node"], /the first list of Service, Node/],
      [[], /the kernel/],
    ] as const
  ) {
    const [clock, logger] = [new ManualClock(), new MemoryLogger()];
    const told = tellOfWaiting({
      clock,
      logger,
      firstSync: Promise.withResolvers<void>().promise,
      missing: () => missing,
      signal: new AbortController().signal,
    });
    await clock.advance(29_999);
    assertEquals(logger.lines, []);
    await clock.advance(1);
    await told;
    assertEquals(logger.lines.length, 1);
    assertMatch(logger.lines[0] ?? "", pattern);
  }
});

Deno.test("after a first sync there is nothing to tell", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  const firstSync = Promise.withResolvers<void>();
  const told = tellOfWaiting({
    clock,
    logger,
    firstSync: firstSync.promise,
    missing: () => [],
    signal: new AbortController().signal,
  });
  firstSync.resolve();
  await told;
  await clock.advance(30_000);
  assertEquals(logger.lines, []);
});

Deno.test("an iptables-save that hangs keeps the saved state back for 10 s, no longer", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  const hanging = { isServedByKubeProxy: () => Promise.withResolvers<boolean>().promise };
  let served: boolean | undefined;
  void isServedByKubeProxy(hanging, { clock, logger }).then((answer) => served = answer);
  await clock.advance(9_999);
  assertEquals(served, undefined);
  await clock.advance(1);
  assertEquals([served, logger.at("warn").length], [false, 1]);
});

Deno.test("an answer in time counts", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  for (const answer of [true, false]) {
    const handOver = { isServedByKubeProxy: () => Promise.resolve(answer) };
    assertEquals(await isServedByKubeProxy(handOver, { clock, logger }), answer);
  }
  await settle();
  await clock.advance(60_000);
  assertEquals(logger.lines, []);
});
