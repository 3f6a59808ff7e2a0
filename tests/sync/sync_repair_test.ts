import { assert, assertEquals, assertMatch } from "@std/assert";
import { service, stored, SyncFixture } from "./fixture.ts";

Deno.test("after a partial script has failed, everything is replaced at once", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  const { dataplane } = fixture;
  dataplane.failures.push("conflict");
  fixture.upsert(service(2));
  await fixture.pass(0);
  assertEquals(dataplane.log.slice(1), [
    "partial: default/s2 (conflict)",
    "full: default/s1 default/s2",
  ]);
  assertEquals(dataplane.kernel, fixture.wanted);
  assertMatch(fixture.logger.at("error").join(), /partial sync failed: no, conflict; replacing/);
  fixture.upsert(service(3));
  await fixture.pass(1_000);
  assertEquals(dataplane.log.slice(3), ["partial: default/s3"]);
  assertEquals(fixture.outcomes.map(({ isFull }) => isFull), [true, true, false]);
});

Deno.test("a program that hung or could not be started is not asked again before a pause", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  const { dataplane } = fixture;
  dataplane.failures.push("program-failed");
  fixture.upsert(service(2));
  await fixture.pass(0);
  assertEquals(dataplane.log.slice(1), ["partial: default/s2 (program-failed)"]);
  assertMatch(fixture.logger.at("error").join(), /program-failed; the kernel keeps the old rules/);
  await fixture.pass(999);
  assertEquals(dataplane.log.length, 2);
  await fixture.pass(1);
  assertEquals(dataplane.log.slice(2), ["full: default/s1 default/s2"]);
});

Deno.test("what changes while full scripts fail is in the one that the kernel takes", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  const { dataplane } = fixture;
  dataplane.failures.push("busy", "busy", "busy");
  fixture.upsert(service(2));
  await fixture.pass(0);
  fixture.remove("Service", "default/s1");
  await fixture.pass(1_000);
  fixture.upsert(service(3));
  await fixture.pass(2_000);
  assertEquals(dataplane.log.at(-1), "full: default/s2 default/s3");
  assertEquals(dataplane.kernel, fixture.wanted);
});

Deno.test("after a success the back-off starts again", async () => {
  await using fixture = await SyncFixture.synced([]);
  const { dataplane } = fixture;
  for (const number of [1, 2]) {
    dataplane.failures.push("busy", "busy");
    fixture.upsert(service(number));
    await fixture.pass(1_000);
    const tries = dataplane.log.length;
    await fixture.pass(1_000);
    assertEquals(dataplane.log.length, tries + 1);
    assertEquals(dataplane.kernel, fixture.wanted);
  }
});

Deno.test("an error that is not a refusal of the kernel ends the loop", async () => {
  const fixture = new SyncFixture();
  fixture.deliver([]);
  fixture.dataplane.during = () => {
    throw new TypeError("a defect");
  };
  const run = fixture.loop.run().catch((error: unknown) => error);
  await fixture.pass(0);
  assertEquals(String(await run), "TypeError: a defect");
});

Deno.test("an error of the cache ends the loop", async () => {
  const fixture = new SyncFixture();
  fixture.cache.applying = () => {
    throw new TypeError("a defect");
  };
  const run = fixture.loop.run().catch((error: unknown) => error);
  fixture.deliver([service(1)]);
  await fixture.pass(0);
  assertEquals(String(await run), "TypeError: a defect");
});

Deno.test("everything is replaced after the full sync period, though nothing changed", async () => {
  await using fixture = await SyncFixture.synced([service(1)], { fullSyncPeriod: 60_000 });
  const { dataplane } = fixture;
  await fixture.pass(58_000);
  assertEquals(dataplane.log.length, 1);
  for (let times = 2; times < 5; times++) {
    await fixture.pass(60_000);
    assertEquals(dataplane.log.length, times);
    assertEquals(dataplane.log.at(-1), "full: default/s1");
  }
});

Deno.test("the full sync period replaces everything though changes come", async () => {
  await using fixture = await SyncFixture.synced([service(1)], { fullSyncPeriod: 5_000 });
  const { dataplane } = fixture;
  dataplane.during = () => fixture.upsert(service(1));
  fixture.upsert(service(1));
  for (let second = 0; second < 12; second++) await fixture.pass(1_000);
  const kinds = dataplane.log.slice(1).map((each) => each.slice(0, each.indexOf(":")));
  assertEquals(kinds.filter((kind) => kind === "full").length, 2, kinds.join());
});

Deno.test("any full sync starts the full sync period again", async () => {
  await using fixture = await SyncFixture.synced([service(1)], { fullSyncPeriod: 60_000 });
  const { dataplane } = fixture;
  await fixture.pass(50_000);
  fixture.loop.requestFull("a reason");
  await fixture.pass(0);
  assertEquals(dataplane.log.length, 2);
  await fixture.pass(50_000);
  assertEquals(dataplane.log.length, 2);
  await fixture.pass(10_000);
  assertEquals(dataplane.log.length, 3);
});

Deno.test("a request for a full sync is served without a change of the objects", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  const { dataplane } = fixture;
  dataplane.kernel.clear();
  fixture.loop.requestFull("another program deleted the table");
  await fixture.pass(0);
  assertEquals(dataplane.kernel, fixture.wanted);
  const line = fixture.logger.at("debug").find((each) => each.includes("another program"));
  assert(line !== undefined, fixture.logger.lines.join("\n"));
});

Deno.test("a request that comes while a full script is applied is served by another one", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  const { dataplane } = fixture;
  dataplane.during = () => {
    dataplane.during = () => {};
    fixture.loop.requestFull("deleted again");
  };
  fixture.loop.requestFull("deleted");
  await fixture.pass(0);
  await fixture.pass(1_000);
  assertEquals(dataplane.log.length, 3);
});

Deno.test("requests in quick succession do not take all of the processor", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  for (let times = 0; times < 100; times++) {
    fixture.loop.requestFull("deleted");
    await fixture.clock.advance(10);
  }
  assert(fixture.dataplane.log.length <= 12, `${fixture.dataplane.log.length} syncs`);
});

Deno.test("a state from before the start is repaired while the sources are silent", async () => {
  await using fixture = new SyncFixture();
  const { dataplane, loop } = fixture;
  dataplane.failures.push("busy", "busy");
  await loop.restore(stored([service(1)]));
  await fixture.start();
  await fixture.pass(0);
  assertEquals([...dataplane.kernel.keys()], []);
  await fixture.pass(1_000);
  await fixture.pass(2_000);
  assertEquals([...dataplane.kernel.keys()], ["default/s1"]);
  dataplane.kernel.clear();
  fixture.deliver([service(2)], ["Service"]);
  loop.requestFull("another program deleted the table");
  await fixture.pass(1_000);
  assertEquals(dataplane.log.at(-1), "full: default/s1");
  assertEquals(loop.stale, true);
});
