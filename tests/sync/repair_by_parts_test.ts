import { assertEquals, assertMatch } from "@std/assert";
import { FakeDataplane, type FixtureOptions, service, SyncFixture } from "./fixture.ts";

/** A loop that has synced one Service, and the script of its repairs. */
function synced(repair: FixtureOptions["repair"]): Promise<SyncFixture> {
  return SyncFixture.synced([service(1)], { ...repair && { repair } });
}

/** What repairs with this script. */
function putsBack(...names: readonly string[]): NonNullable<FixtureOptions["repair"]> {
  return () => new FakeDataplane().repair(new Map(names.map((name) => [name, "as it was"])));
}

Deno.test("a repair writes what differs, without waiting for the min sync period, and then the next step", async () => {
  await using fixture = await synced(putsBack("default/gone"));
  const { dataplane, loop, outcomes } = fixture;
  fixture.upsert(service(2));
  await fixture.pass(1_000);
  outcomes.length = 0;
  fixture.upsert(service(3));
  loop.requestRepair();
  await fixture.pass(100);
  assertEquals(dataplane.log.slice(2), ["partial: default/gone", "partial: default/s3"]);
  assertEquals(outcomes.map(({ done, full }) => [done, full]), [[true, true]]);
  fixture.upsert(service(4));
  await fixture.pass(1_000);
  assertEquals(outcomes.map(({ done, full }) => [done, full]).slice(1), [[true, false]]);
});

Deno.test("a repair where nothing differs writes nothing", async () => {
  await using fixture = await synced(putsBack());
  fixture.loop.requestRepair();
  await fixture.pass(100);
  assertEquals(fixture.dataplane.log.slice(1).filter((line) => line !== "partial: "), []);
  assertMatch(fixture.logger.at("debug").join(), /nothing differs/);
  assertEquals(fixture.outcomes.at(-1)?.full, false);
});

Deno.test("where parts do not suffice, everything is replaced", async () => {
  for (const repair of [() => undefined, undefined]) {
    await using fixture = await synced(repair);
    fixture.loop.requestRepair();
    await fixture.pass(100);
    assertEquals(fixture.dataplane.log.slice(1), ["full: default/s1"]);
    assertEquals(fixture.outcomes.at(-1)?.full, true);
  }
});

Deno.test("where the kernel refuses the parts, everything is replaced at once", async () => {
  await using fixture = await synced(putsBack("default/gone"));
  fixture.dataplane.failures.push("conflict");
  fixture.loop.requestRepair();
  await fixture.pass(100);
  assertEquals(fixture.dataplane.log.slice(1), [
    "partial: default/gone (conflict)",
    "full: default/s1",
  ]);
  await fixture.pass(10_000);
  assertEquals(fixture.dataplane.log.length, 3);
});

Deno.test("a full sync that is due is the repair", async () => {
  await using fixture = await synced(putsBack("default/gone"));
  fixture.loop.requestRepair();
  fixture.loop.requestFull("a test");
  await fixture.pass(1_000);
  assertEquals(fixture.dataplane.log.slice(1), ["full: default/s1"]);
});
