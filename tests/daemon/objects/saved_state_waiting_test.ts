import { assertEquals, assertMatch } from "@std/assert";
import { isServed } from "../../../lib/daemon/objects/saved_state.ts";
import type { Parts } from "../../../lib/daemon/parts.ts";
import { announceReady } from "../../../lib/daemon/reports/service_manager.ts";
import { ServiceManager } from "../../../lib/observe/systemd.ts";
import { ManualClock, MemoryLogger, settle } from "../../support/clock_and_log.ts";

/** A daemon that waits for its first sync, and the parts that say for what. */
function waiting({ missing = [], stale = false, progress }: {
  readonly missing?: readonly string[];
  readonly stale?: boolean;
  readonly progress?: { readonly done: number; readonly of: number };
} = {}) {
  const [clock, logger, sent] = [new ManualClock(), new MemoryLogger(), [] as string[]];
  const socket = { send: (text: string) => Promise.resolve(void sent.push(text)), close() {} };
  const manager = new ServiceManager({ socket, watchdog: undefined, clock, logger });
  const { promise: firstSync, resolve } = Promise.withResolvers<void>();
  const { signal } = new AbortController();
  const announced = announceReady({
    options: { manager, runtime: { clock }, logger, signal },
    cache: { missing },
    loop: { stale },
    opened: { backend: { dataplane: { progress } } },
  } as unknown as Parts, firstSync);
  const sync = async () => {
    resolve();
    await announced;
  };
  return { clock, logger, sent, sync };
}

Deno.test("what the first sync waits for is the kernel with its portions, or a list", async () => {
  const waitsFor = async (state: Parameters<typeof waiting>[0]) => {
    const { clock, sent, sync } = waiting(state);
    await clock.advance(10_000);
    await sync();
    return sent[0]?.replace(/^.*waiting for /s, "");
  };
  const progress = { done: 3, of: 11 };
  assertEquals(
    await waitsFor({ missing: ["Node"], progress }),
    "the kernel, which has portions 3 of 11",
  );
  assertEquals(await waitsFor({ missing: ["Node"], stale: true }), "the kernel");
  assertEquals(await waitsFor({ missing: ["Service", "Node"] }), "the first list of Service, Node");
  assertEquals(await waitsFor({}), "the kernel");
});

Deno.test("30 s without a first sync are logged with what is missing", async () => {
  const { clock, logger, sync } = waiting({ missing: ["Node"] });
  await clock.advance(10_000);
  await clock.advance(19_999);
  assertEquals(logger.lines, []);
  await clock.advance(1);
  await sync();
  assertEquals(logger.lines.length, 1);
  assertMatch(logger.lines[0] ?? "", /the first list of Node/);
});

Deno.test("after a first sync there is nothing to tell", async () => {
  const { clock, logger, sync } = waiting();
  await sync();
  await clock.advance(30_000);
  assertEquals(logger.lines, []);
});

Deno.test("systemd gets a first sync that comes after the service is ready", async () => {
  const { clock, sent, sync } = waiting({ missing: ["Node"] });
  await clock.advance(9_999);
  assertEquals(sent, []);
  await clock.advance(1);
  assertEquals(sent, [
    "READY=1\nSTATUS=no rules are written yet, waiting for the first list of Node",
  ]);
  await sync();
  assertEquals(sent.slice(1), ["READY=1\nSTATUS=rules are in the kernel"]);
});

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
