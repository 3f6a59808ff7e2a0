import { assertEquals, assertMatch } from "@std/assert";
import { isServed } from "../../lib/daemon/objects/saved_state.ts";
import { announceReady, waitingFor } from "../../lib/daemon/reports/service_manager.ts";
import { ServiceManager } from "../../lib/observe/systemd.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";

Deno.test("what the first sync waits for is the kernel with its portions, or a list", () => {
  const progress = { done: 3, of: 11 };
  assertEquals(
    waitingFor({ missing: ["Node"], isStale: false, progress }),
    "the kernel, which has portions 3 of 11",
  );
  assertEquals(
    waitingFor({ missing: ["Node"], isStale: true, progress: undefined }),
    "the kernel",
  );
  assertEquals(
    waitingFor({ missing: ["Service", "Node"], isStale: false, progress: undefined }),
    "the first list of Service, Node",
  );
  assertEquals(
    waitingFor({ missing: [], isStale: false, progress: undefined }),
    "the kernel",
  );
});

Deno.test("30 s without a first sync are told of, with what is waited for", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  const { promise: firstSync, resolve } = Promise.withResolvers<void>();
  const told = announceReady({ ...waiting(clock), firstSync, logger });
  await clock.advance(10_000);
  await clock.advance(19_999);
  assertEquals(logger.lines, []);
  await clock.advance(1);
  resolve();
  await told;
  assertEquals(logger.lines.length, 1);
  assertMatch(logger.lines[0] ?? "", /the moon/);
});

Deno.test("after a first sync there is nothing to tell", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  const firstSync = Promise.resolve();
  await announceReady({ ...waiting(clock), firstSync, logger });
  await clock.advance(30_000);
  assertEquals(logger.lines, []);
});

Deno.test("systemd hears of a first sync that comes after the service counted as ready", async () => {
  const [clock, sent] = [new ManualClock(), [] as string[]];
  const socket = { send: (text: string) => Promise.resolve(void sent.push(text)), close() {} };
  const manager = new ServiceManager({
    socket,
    watchdog: undefined,
    clock,
    logger: new MemoryLogger(),
  });
  const { promise: firstSync, resolve } = Promise.withResolvers<void>();
  const announced = announceReady({ ...waiting(clock), manager, firstSync });
  await clock.advance(9_999);
  assertEquals(sent, []);
  await clock.advance(1);
  assertEquals(sent, ["READY=1\nSTATUS=no rules are written yet, waiting for the moon"]);
  resolve();
  await announced;
  assertEquals(sent.slice(1), ["READY=1\nSTATUS=rules are in the kernel"]);
});

function waiting(clock: ManualClock) {
  return {
    manager: { ready: () => Promise.resolve() },
    clock,
    logger: new MemoryLogger(),
    firstSync: Promise.withResolvers<void>().promise,
    waitingFor: () => "the moon",
    signal: new AbortController().signal,
  };
}

Deno.test("an iptables-save that hangs keeps the state file back for 10 s, no longer", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  const hanging = { isServed: () => Promise.withResolvers<boolean>().promise };
  let served: boolean | undefined;
  void isServed(hanging, { clock, logger }).then((answer) => served = answer);
  await clock.advance(9_999);
  assertEquals(served, undefined);
  await clock.advance(1);
  assertEquals([served, logger.at("warn").length], [false, 1]);
});

Deno.test("an answer in time counts", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  for (const answer of [true, false]) {
    const handOver = { isServed: () => Promise.resolve(answer) };
    assertEquals(await isServed(handOver, { clock, logger }), answer);
  }
  await settle();
  await clock.advance(60_000);
  assertEquals(logger.lines, []);
});
