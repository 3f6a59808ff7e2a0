import { assertEquals, assertMatch } from "@std/assert";
import type { Drift } from "../../lib/model/kernel/dataplane.ts";
import { service, SyncFixture } from "./fixture.ts";

const DRIFT: Drift = { missing: "the whole table", added: "", by: "nft (pid 4711)" };

/** Has another program delete a Service again and again, and waits for each repair. */
async function repaired(times: number): Promise<SyncFixture> {
  const fixture = await SyncFixture.synced([service(1)], { repairs: true });
  for (let time = 0; time < times; time++) {
    fixture.dataplane.kernel.clear();
    fixture.loop.drifted(DRIFT);
    await fixture.pass(100);
  }
  return fixture;
}

/** How often rules were put back. */
function repairs({ dataplane }: SyncFixture): number {
  return dataplane.log.length - 1;
}

Deno.test("drift is repaired at once", async () => {
  await using fixture = await repaired(1);
  assertEquals(repairs(fixture), 1);
  assertMatch(
    fixture.logger.at("warn").join(),
    /another program has changed our rules.*nft \(pid 4711\)/,
  );
  assertEquals(fixture.told.filter((line) => line === "drifted").length, 1);
});

Deno.test("drift is known until it is repaired", async () => {
  await using fixture = await repaired(5);
  const { dataplane, loop } = fixture;
  assertEquals(loop.drift, undefined);
  dataplane.kernel.clear();
  loop.drifted(DRIFT);
  dataplane.failures.push("busy", "busy");
  await fixture.pass(1_000);
  assertEquals(loop.drift, DRIFT);
  await fixture.pass(10_000);
  assertEquals(loop.drift, undefined);
  loop.drifted({ ...DRIFT, missing: "" });
  await fixture.pass(30_000);
  assertEquals([loop.drift, fixture.wanted], [undefined, dataplane.kernel]);
});

Deno.test("drift that comes before its repair begins counts once", async () => {
  await using fixture = await repaired(0);
  fixture.loop.drifted(DRIFT);
  fixture.loop.drifted(DRIFT);
  assertEquals(fixture.told.filter((line) => line === "drifted").length, 1);
  assertEquals(fixture.logger.at("warn").length, 1);
});

Deno.test("after five repairs in a row, the next one waits", async () => {
  await using fixture = await repaired(5);
  const lines = fixture.logger.at("warn").length;
  fixture.dataplane.kernel.clear();
  for (let time = 0; time < 100; time++) fixture.loop.drifted(DRIFT);
  await fixture.pass(890);
  assertEquals([repairs(fixture), fixture.logger.at("warn").length], [5, lines + 1]);
  await fixture.pass(110);
  assertEquals(repairs(fixture), 6);
});

Deno.test("changes do not wait for a repair that is put off", async () => {
  await using fixture = await repaired(5);
  fixture.loop.drifted(DRIFT);
  fixture.upsert(service(2));
  await fixture.pass(1_000);
  assertEquals(fixture.dataplane.log.slice(6), ["partial: default/s2"]);
});

Deno.test("a stopped loop does not repair", async () => {
  const fixture = await repaired(5);
  fixture.loop.drifted(DRIFT);
  await fixture[Symbol.asyncDispose]();
  await fixture.clock.advance(60_000);
  assertEquals(repairs(fixture), 5);
});

const UNCONFIRMED = { ...DRIFT, isUnconfirmed: true } as const;

Deno.test("what a look found beside syncs is reported when a repair finds it too", async () => {
  await using fixture = await SyncFixture.synced([service(1)], { repairs: true });
  const { dataplane, loop, logger, told } = fixture;
  loop.drifted(UNCONFIRMED);
  await fixture.pass(100);
  assertEquals([logger.at("warn"), told.includes("drifted")], [[], false]);
  dataplane.deleteByOther("default/s1");
  loop.drifted(UNCONFIRMED);
  await fixture.pass(100);
  assertEquals(repairs(fixture), 1);
  assertMatch(logger.at("warn").join(), /another program has changed our rules/);
  assertEquals(told.filter((line) => line === "drifted").length, 1);
});
