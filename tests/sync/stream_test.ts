import { assertEquals } from "@std/assert";
import { service, stored, SyncFixture } from "./fixture.ts";

Deno.test("where the backend can, it has the first Services while others are worked out; what comes meanwhile is in the next sync", async () => {
  await using fixture = new SyncFixture({ streams: true });
  const seen: number[] = [];
  fixture.backend.during = () => {
    if (fixture.backend.log.length > 1) return;
    seen.push(fixture.desired.services.size, fixture.outcomes.length);
    fixture.upsert(service(1, { clusterIP: "10.97.0.1" }));
    fixture.remove("Service", "default/s2");
  };
  fixture.deliver([service(1), service(2), service(3)]);
  await fixture.start();
  await fixture.pass(0);
  assertEquals(seen, [0, 0]);
  const first = ["streamed", "full: default/s1 default/s2 default/s3"];
  assertEquals(fixture.backend.log, first);
  assertEquals([...fixture.outcomes[0]?.change.services.keys() ?? []].length, 3);
  await fixture.pass(1_000);
  assertEquals(fixture.backend.log, [...first, "partial: default/s1 default/s2"]);
  assertEquals(fixture.backend.kernel, fixture.wanted);
  assertEquals(fixture.outcomes.map(({ full }) => full), [true, false]);
});

Deno.test("where the backend fails meanwhile, all Services are worked out, and the next try has them", async () => {
  await using fixture = new SyncFixture({ streams: true });
  fixture.backend.failures.push("busy");
  fixture.deliver([
    service(1, { externalIPs: ["192.0.2.1"] }),
    service(2, { externalIPs: ["192.0.2.1"] }),
  ]);
  await fixture.start();
  await fixture.pass(0);
  assertEquals(fixture.backend.log, ["streamed"]);
  assertEquals(fixture.outcomes.map(({ done }) => done), [false]);
  assertEquals([...fixture.desired.services.keys()].sort(), ["default/s1", "default/s2"]);
  assertEquals(fixture.told.filter((line) => line.startsWith("conflict")).length, 1);
  await fixture.pass(1_000);
  assertEquals(fixture.backend.log, ["streamed", "full: default/s1 default/s2"]);
  assertEquals(fixture.backend.kernel, fixture.wanted);
});

Deno.test("the Services of a state file are written as they are worked out, too", async () => {
  await using fixture = new SyncFixture({ streams: true });
  await fixture.loop.restore(stored([service(1), service(2)]));
  await fixture.start();
  await fixture.pass(0);
  await fixture.pass(60_000);
  assertEquals(fixture.backend.log, ["streamed", "full: default/s1 default/s2"]);
  assertEquals(fixture.loop.stale, true);
  fixture.deliver([service(1), service(3)]);
  await fixture.pass(0);
  assertEquals(fixture.backend.log.at(-1), "partial: default/s1 default/s2 default/s3");
  assertEquals(fixture.loop.stale, false);
});
