import { assertEquals, assertMatch } from "@std/assert";
import { service, SyncFixture } from "./fixture.ts";

const DRIFT = { missing: "a Service", added: "", by: "" };

/** A loop that has synced one Service; another program has deleted it, unless `isGone` is false. */
async function synced({ repairs = true, isGone = true } = {}): Promise<SyncFixture> {
  const fixture = await SyncFixture.synced([service(1)], { repairs });
  if (isGone) fixture.dataplane.deleteByOther("default/s1");
  return fixture;
}

/** Of each sync, whether it succeeded, and whether it was full. */
function outcomesOf({ outcomes }: SyncFixture): string[] {
  return outcomes.map(({ applied, isFull }) =>
    `${applied ? "done" : "failed"}${isFull ? " full" : ""}`
  );
}

Deno.test("a repair does not wait for the min sync period", async () => {
  await using fixture = await synced();
  const { dataplane, loop, outcomes } = fixture;
  fixture.upsert(service(2));
  await fixture.pass(1_000);
  outcomes.length = 0;
  fixture.upsert(service(3));
  loop.drifted(DRIFT);
  await fixture.pass(100);
  assertEquals(dataplane.log.slice(2), ["partial: default/s1", "partial: default/s3"]);
  assertEquals(outcomesOf(fixture), ["done full"]);
  fixture.upsert(service(4));
  await fixture.pass(1_000);
  assertEquals(outcomesOf(fixture), ["done full", "done"]);
});

Deno.test("a repair without a difference writes nothing", async () => {
  await using fixture = await synced({ isGone: false });
  fixture.loop.drifted(DRIFT);
  await fixture.pass(100);
  assertEquals(fixture.dataplane.log.slice(1), []);
  assertMatch(fixture.logger.at("debug").join(), /the kernel has the rules that signpost wrote/);
  assertEquals(fixture.outcomes.length, 1, "there is nothing that steps could follow");
});

Deno.test("a repair is followed by no empty sync: it is the last sync that status shows", async () => {
  await using fixture = await synced();
  const { dataplane, loop, outcomes } = fixture;
  outcomes.length = 0;
  for (const milliseconds of [100, 1_000]) {
    dataplane.deleteByOther("default/s1");
    loop.drifted(DRIFT);
    await fixture.pass(milliseconds);
  }
  assertEquals(dataplane.log.slice(1), ["partial: default/s1", "partial: default/s1"]);
  assertEquals(outcomesOf(fixture), ["done full", "done full"]);
  assertEquals(loop.busy, 0);
});

Deno.test("where parts do not suffice, everything is replaced", async () => {
  await using fixture = await synced({ repairs: false });
  fixture.loop.drifted(DRIFT);
  await fixture.pass(100);
  assertEquals(fixture.dataplane.log.slice(1), ["full: default/s1"]);
  assertEquals(fixture.outcomes.at(-1)?.isFull, true);
});

Deno.test("where the kernel refuses the parts, everything is replaced at once", async () => {
  await using fixture = await synced();
  fixture.dataplane.failures.push("conflict");
  fixture.loop.drifted(DRIFT);
  await fixture.pass(100);
  assertEquals(fixture.dataplane.log.slice(1), [
    "partial: default/s1 (conflict)",
    "full: default/s1",
  ]);
  await fixture.pass(10_000);
  assertEquals(fixture.dataplane.log.length, 3);
});

Deno.test("a full sync that is due is the repair", async () => {
  await using fixture = await synced();
  fixture.loop.drifted(DRIFT);
  fixture.loop.requestFull("a test");
  await fixture.pass(1_000);
  assertEquals(fixture.dataplane.log.slice(1), ["full: default/s1"]);
});
