import { assertEquals } from "@std/assert";
import { settle } from "../support/clock_and_log.ts";
import { service, stored, SyncFixture } from "./fixture.ts";
import { node } from "../support/cluster.ts";

const NODE = node({ addresses: ["192.0.2.10"] });

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

Deno.test("an empty cluster that is delivered while the loop waits gets its first sync, too", async () => {
  await using fixture = new SyncFixture();
  await fixture.start();
  fixture.deliver([]);
  await fixture.pass(0);
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

Deno.test("the loop leaves the rules when it ends", async () => {
  const fixture = await SyncFixture.synced([service(1)]);
  fixture.upsert(service(2));
  await fixture.pass(0);
  fixture.upsert(service(3));
  await fixture[Symbol.asyncDispose]();
  assertEquals([...fixture.dataplane.kernel.keys()], ["default/s1", "default/s2"]);
});

Deno.test("a loop that is stopped before it begins does nothing", async () => {
  const fixture = new SyncFixture();
  fixture.deliver([service(1)]);
  fixture.stop.abort();
  await fixture.loop.run();
  await settle();
  assertEquals(fixture.dataplane.log, []);
});

Deno.test("a loop that is stopped during a sync waits for the transaction", async () => {
  for (const failures of [[], ["conflict"]] as const) {
    const fixture = await SyncFixture.synced([service(1)]);
    const { dataplane, outcomes } = fixture;
    const taken = Promise.withResolvers<void>();
    dataplane.failures.push(...failures);
    dataplane.during = () => taken.promise;
    fixture.upsert(service(2));
    await fixture.pass(0);
    const [tries, followed] = [dataplane.log.length, outcomes.length];
    let isEnded = false;
    const ending = fixture[Symbol.asyncDispose]().then(() => isEnded = true);
    await settle();
    assertEquals(isEnded, false);
    taken.resolve();
    await ending;
    // Not even a full one where a partial one failed: the next daemon may have other settings.
    assertEquals([dataplane.log.length, outcomes.length], [tries, followed]);
    assertEquals(fixture.logger.at("error"), []);
  }
});

Deno.test("a loop that is stopped between two steps does not take the second", async () => {
  const fixture = await SyncFixture.synced([service(1)]);
  const followed = fixture.followed.length;
  fixture.finish = () => Promise.resolve(fixture.stop.abort());
  fixture.upsert(service(2));
  await fixture.pass(0);
  await fixture[Symbol.asyncDispose]();
  assertEquals(fixture.followed.length, followed);
});

Deno.test("the state file's rules are written at once", async () => {
  await using fixture = new SyncFixture();
  const { dataplane, loop } = fixture;
  await loop.restore(stored([service(1), service(2)]));
  await fixture.start();
  await fixture.pass(0);
  await fixture.pass(60_000);
  assertEquals(dataplane.log, ["full: default/s1 default/s2"]);
  assertEquals(loop.stale, true);
  fixture.deliver([service(2), service(3)]);
  await fixture.pass(0);
  assertEquals(loop.stale, false);
  assertEquals(dataplane.log.slice(1), ["partial: default/s1 default/s3"]);
  assertEquals([...dataplane.kernel.keys()].sort(), ["default/s2", "default/s3"]);
});

Deno.test("a list that comes before the first sync waits for it", async () => {
  await using fixture = new SyncFixture();
  const { dataplane, loop } = fixture;
  await loop.restore(stored([service(1)]));
  const starting = fixture.start();
  fixture.deliver([service(2)], ["Service"]);
  await starting;
  await fixture.pass(0);
  await fixture.pass(60_000);
  assertEquals(dataplane.log, ["full: default/s1"]);
  fixture.deliver([], ["EndpointSlice", "Node", "ServiceCIDR"]);
  await fixture.pass(0);
  assertEquals([...dataplane.kernel.keys()], ["default/s2"]);
});

Deno.test("the Node of the state file is kept while the sources have none", async () => {
  await using fixture = new SyncFixture();
  const { dataplane, desired, loop } = fixture;
  await loop.restore(stored([service(1), NODE]));
  await fixture.start();
  await fixture.pass(0);
  const { node } = desired;
  fixture.deliver([service(1)]);
  await fixture.pass(1_000);
  assertEquals(desired.node, node);
  assertEquals(dataplane.log.slice(1), ["partial: "]);
});
