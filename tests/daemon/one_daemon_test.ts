import { assertEquals, assertRejects } from "@std/assert";
import { beTheOnlyDaemon } from "../../lib/daemon/one_daemon.ts";
import { FatalError } from "../../lib/model/values/errors.ts";
import type { LockHolder, NodeLock } from "../../lib/model/ports/runtime.ts";
import { type NotifySocket, ServiceManager } from "../../lib/observe/systemd.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";

const FIRST: LockHolder = { pid: 4711, version: "0.1.0", since: "2026-01-02T03:04:05.000Z" };

/** A lock that another holds until the test lets it go. */
class FakeLock implements NodeLock {
  named: LockHolder | undefined = FIRST;
  isFree = false;
  takes = 0;
  /** The last process that asked for the lock, in its own words. */
  asker: LockHolder | undefined;

  take(asker?: LockHolder): boolean {
    this.takes++;
    this.asker = asker;
    return this.isFree;
  }

  holder(): Promise<LockHolder | undefined> {
    return Promise.resolve(this.named);
  }
}

/** A system without such locks. */
class NoLock extends FakeLock {
  override take(): boolean {
    throw new Error("refused");
  }
}

function start(lock: NodeLock, wait: boolean) {
  const [logger, clock] = [new MemoryLogger(), new ManualClock()];
  const stop = new AbortController();
  const sent: string[] = [];
  const socket: NotifySocket = {
    send: (datagram) => Promise.resolve(void sent.push(datagram)),
    close: () => {},
  };
  const manager = new ServiceManager({ socket, watchdog: 30_000, clock, logger });
  const only = beTheOnlyDaemon({
    runtime: { lock, pid: 4712, clock },
    wait,
    manager,
    logger,
    signal: stop.signal,
  });
  only.catch(() => {});
  return { logger, clock, stop, sent, only };
}

Deno.test("a second daemon ends with one line that names the first", async () => {
  await assertRejects(
    () => start(new FakeLock(), false).only,
    FatalError,
    "another signpost runs in this network namespace (pid 4711, version 0.1.0, since " +
      "2026-01-02T03:04:05.000Z): stop it, or start this one with --wait",
  );
  const silent = new FakeLock();
  silent.named = undefined;
  await assertRejects(() => start(silent, false).only, FatalError, "ss -xlp shows");
});

Deno.test("a daemon that has waited names the time of its start", async () => {
  const lock = new FakeLock();
  const { clock, only } = start(lock, true);
  await settle();
  const since = lock.asker?.since;
  lock.isFree = true;
  await clock.advance(500);
  await only;
  assertEquals([lock.takes, lock.asker?.since], [2, since]);
});

Deno.test("a daemon that waits can be stopped", async () => {
  const { stop, only } = start(new FakeLock(), true);
  await settle();
  stop.abort();
  await only;
});

Deno.test("systemd takes a daemon that waits as started", async () => {
  const lock = new FakeLock();
  const { clock, sent, only } = start(lock, true);
  await settle();
  const status = "STATUS=waiting for its end: another signpost runs in this network namespace " +
    "(pid 4711, version 0.1.0, since 2026-01-02T03:04:05.000Z)";
  assertEquals(sent, [`READY=1\n${status}`, "WATCHDOG=1"]);
  await clock.advance(15_000);
  assertEquals(sent.slice(2), ["WATCHDOG=1"]);
  lock.isFree = true;
  await clock.advance(500);
  await only;
  await clock.advance(60_000);
  assertEquals(sent.slice(3), [], "the daemon gives its own signs of life");
});

Deno.test("a daemon that need not wait sends systemd nothing", async () => {
  const lock = new FakeLock();
  lock.isFree = true;
  const { sent, only } = start(lock, true);
  await only;
  assertEquals(sent, []);
});

Deno.test("the daemon starts where there are no such locks", async () => {
  const { logger, only } = start(new NoLock(), false);
  await only;
  assertEquals(logger.at("warn").length, 1);
});
