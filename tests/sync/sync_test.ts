import { assert, assertEquals, assertMatch } from "@std/assert";
import type { ObjectCache } from "../../lib/cache/cache.ts";
import type { ApiObject } from "../support/pipeline.ts";
import { settle } from "../watch/fakes.ts";
import { service, SyncFixture } from "./fixture.ts";

const NODE: ApiObject = {
  kind: "Node",
  metadata: { name: "node-1" },
  status: { addresses: [{ type: "InternalIP", address: "192.0.2.10" }] },
};

Deno.test("nothing is applied before every kind has delivered its first state", async () => {
  await using fixture = new SyncFixture();
  const { dataplane } = fixture;
  await fixture.start();
  for (const kind of ["Service", "EndpointSlice", "Node"] as const) {
    fixture.deliver([service(1), NODE], [kind]);
    await fixture.pass(10_000);
    assertEquals(dataplane.log, []);
  }
  assertEquals(fixture.told, []);
  fixture.deliver([], ["ServiceCIDR"]);
  await fixture.pass(0);
  assertEquals(dataplane.log, ["full: default/s1"]);
});

Deno.test("while sources are silent the loop sleeps", async () => {
  await using fixture = new SyncFixture();
  await fixture.start();
  for (let hour = 0; hour < 24; hour++) await fixture.pass(3_600_000);
  assertEquals(fixture.clock.sleeps.length, 1);
});

Deno.test("an empty cluster is a state too: it gets its first sync", async () => {
  await using fixture = await SyncFixture.synced([]);
  assertEquals(fixture.dataplane.log, ["full: "]);
});

Deno.test("the first sync is full, every later one has what changed alone", async () => {
  await using fixture = await SyncFixture.synced([service(1), service(2)]);
  const { dataplane } = fixture;
  fixture.upsert(service(2, { ports: [{ port: 81 }] }));
  await fixture.pass(0);
  fixture.remove("Service", "default/s1");
  await fixture.pass(1_000);
  assertEquals(dataplane.log, [
    "full: default/s1 default/s2",
    "partial: default/s2",
    "partial: default/s1",
  ]);
  assertEquals(dataplane.kernel, fixture.wanted);
  assertEquals([...dataplane.kernel.keys()], ["default/s2"]);
});

Deno.test("changes inside the min sync period are one transaction", async () => {
  await using fixture = await SyncFixture.synced([]);
  const { dataplane } = fixture;
  fixture.upsert(service(1));
  await fixture.pass(0);
  for (const number of [2, 3, 4]) {
    fixture.upsert(service(number));
    await fixture.pass(300);
  }
  fixture.remove("Service", "default/s3");
  assertEquals(dataplane.log, ["full: ", "partial: default/s1"]);
  await fixture.pass(100);
  assertEquals(dataplane.log.slice(2), ["partial: default/s2 default/s3 default/s4"]);
  await fixture.pass(60_000);
  assertEquals(dataplane.log.length, 3);
});

Deno.test("a change that comes while a script is applied is in the next one", async () => {
  await using fixture = await SyncFixture.synced([]);
  const { dataplane } = fixture;
  dataplane.during = () => {
    dataplane.during = () => {};
    fixture.upsert(service(2));
  };
  fixture.upsert(service(1));
  await fixture.pass(0);
  await fixture.pass(1_000);
  assertEquals(dataplane.log.slice(1), ["partial: default/s1", "partial: default/s2"]);
  assertEquals(dataplane.kernel, fixture.wanted);
});

Deno.test("a change of the node that a partial script cannot make is made by a full one", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  fixture.upsert(NODE);
  await fixture.pass(0);
  assertEquals(fixture.dataplane.log.slice(1), ["full: default/s1"]);
});

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
});

Deno.test("after a full script has failed the rules stay, and the next tries come later and later", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  const { dataplane } = fixture;
  const before = new Map(dataplane.kernel);
  dataplane.failures.push("conflict", ...Array.from({ length: 9 }, () => "busy" as const));
  fixture.upsert(service(2));
  await fixture.pass(0);
  assertEquals(dataplane.log.length, 3);
  for (const pause of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]) {
    const tries = dataplane.log.length;
    await fixture.pass(pause - 1);
    assertEquals(dataplane.log.length, tries, `before ${pause} ms`);
    assertEquals(dataplane.kernel, before);
    await fixture.pass(1);
    assertEquals(dataplane.log.length, tries + 1, `after ${pause} ms`);
  }
  assertEquals(dataplane.log.at(-1), "full: default/s1 default/s2 (busy)");
  await fixture.pass(30_000);
  assertEquals(dataplane.log.at(-1), "full: default/s1 default/s2");
  assertEquals(dataplane.kernel, fixture.wanted);
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

Deno.test("after a success the back-off starts anew", async () => {
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

Deno.test("an error that is no refusal of the kernel ends the loop", async () => {
  const fixture = new SyncFixture();
  fixture.deliver([]);
  fixture.dataplane.during = () => {
    throw new TypeError("a defect");
  };
  const run = fixture.loop.run(new AbortController().signal).catch((error: unknown) => error);
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

Deno.test("any full sync starts the full sync period anew", async () => {
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

Deno.test("each refusal is warned of once, and the Service keeps its last good rules", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  const { dataplane, logger, told } = fixture;
  const before = new Map(dataplane.kernel);
  for (let times = 0; times < 3; times++) fixture.upsert(service(1, { ports: [] }));
  await fixture.pass(1_000);
  assertEquals(logger.at("warn").length, 1);
  assertMatch(logger.at("warn").join(), /"key":"default\/s1","reason":"spec\.ports must hold/);
  assertEquals(told.filter((each) => each.startsWith("refused")), ["refused Service default/s1"]);
  assertEquals(dataplane.kernel, before);
  fixture.upsert(service(1, { ports: [{ port: 0 }] }));
  assertEquals(logger.at("warn").length, 2);
});

Deno.test("each conflict is warned of once, until it is over and comes back", async () => {
  const clash = { externalIPs: ["192.0.2.1"] };
  await using fixture = await SyncFixture.synced([service(1, clash), service(2, clash)]);
  const { logger, told } = fixture;
  const conflicts = () => told.filter((each) => each.startsWith("conflict"));
  const conflict = "conflict 192.0.2.1 . tcp . 80 default/s1 default/s2";
  assertEquals(conflicts(), [conflict]);
  assertMatch(
    logger.at("warn").join(),
    /default\/s1 and default\/s2 both want 192\.0\.2\.1 \. tcp \. 80: the older one, default\/s1/,
  );
  for (const number of [1, 2, 1]) {
    fixture.upsert(service(number, { ...clash, sessionAffinity: "ClientIP" }));
    await fixture.pass(1_000);
  }
  assertEquals(conflicts(), [conflict]);
  fixture.remove("Service", "default/s1");
  await fixture.pass(1_000);
  fixture.upsert(service(1, clash));
  await fixture.pass(1_000);
  assertEquals(conflicts(), [conflict, conflict]);
  assertEquals(logger.at("warn").length, 2);
});

Deno.test("the observer hears of what waits, what was applied and what failed", async () => {
  await using fixture = await SyncFixture.synced([]);
  const { dataplane, told } = fixture;
  told.length = 0;
  dataplane.during = () => fixture.clock.advance(250);
  dataplane.failures.push("not-permitted");
  fixture.upsert(service(1));
  await fixture.pass(0);
  await fixture.pass(250);
  assertEquals(told, ["queued", "failed partial: not-permitted", "synced full in 0.5"]);
});

Deno.test("the loop ends when it is told to, and leaves the rules as they are", async () => {
  const fixture = await SyncFixture.synced([service(1)]);
  fixture.upsert(service(2));
  await fixture.pass(0);
  fixture.upsert(service(3));
  await fixture[Symbol.asyncDispose]();
  assertEquals([...fixture.dataplane.kernel.keys()], ["default/s1", "default/s2"]);
});

Deno.test("a loop that is told to end before it begins does nothing", async () => {
  const fixture = new SyncFixture();
  fixture.deliver([service(1)]);
  await fixture.loop.run(AbortSignal.abort());
  await settle();
  assertEquals(fixture.dataplane.log, []);
});

/** The objects of a state from before the start. */
function stored(objects: readonly ApiObject[]): ObjectCache {
  const fixture = new SyncFixture();
  fixture.deliver(objects);
  return fixture.cache;
}

Deno.test("a state from before the start is applied at once, and followed by a step", async () => {
  await using fixture = new SyncFixture();
  const { dataplane, loop } = fixture;
  assertEquals(await loop.seed(stored([service(1), service(2)])), true);
  assertEquals(loop.stale, true);
  await fixture.start();
  await fixture.pass(60_000);
  assertEquals(dataplane.log, ["full: default/s1 default/s2"]);
  fixture.deliver([service(2), service(3)]);
  await fixture.pass(0);
  assertEquals(loop.stale, false);
  assertEquals(dataplane.log.slice(1), ["partial: default/s1 default/s2 default/s3"]);
  assertEquals([...dataplane.kernel.keys()].sort(), ["default/s2", "default/s3"]);
});

Deno.test("a state from before the start is repaired and retried while the sources are silent", async () => {
  await using fixture = new SyncFixture();
  const { dataplane, loop } = fixture;
  dataplane.failures.push("busy", "busy");
  assertEquals(await loop.seed(stored([service(1)])), false);
  await fixture.start();
  await fixture.pass(0);
  await fixture.pass(1_000);
  assertEquals([...dataplane.kernel.keys()], ["default/s1"]);
  dataplane.kernel.clear();
  fixture.deliver([service(2)], ["Service"]);
  loop.requestFull("another program deleted the table");
  await fixture.pass(1_000);
  assertEquals(dataplane.log.at(-1), "full: default/s1");
  assertEquals(loop.stale, true);
});
