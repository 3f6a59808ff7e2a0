import { assertEquals } from "@std/assert";
import type { ApiObject } from "../support/api_store.ts";
import { SyncFixture } from "./fixture.ts";

/** A Service of a namespace, with a cluster IP of its own and this many ports. */
function service(namespace: string, number: number, ports: number): ApiObject {
  return {
    kind: "Service",
    metadata: { namespace, name: `s${number}` },
    spec: {
      clusterIP: `10.96.${namespace === "big" ? 0 : 1}.${number + 1}`,
      ports: Array.from({ length: ports }, (_, i) => ({ name: `p${i}`, port: i + 1 })),
    },
  };
}

Deno.test("what one namespace changes is written in shares, and others have their turn between them", async () => {
  await using fixture = await SyncFixture.synced([], { share: 20 });
  for (let i = 0; i < 4; i++) fixture.upsert(service("big", i, 5));
  fixture.upsert(service("small", 0, 1));
  await fixture.pass(0);
  await fixture.pass(0);
  assertEquals(fixture.backend.log.slice(1), [
    "partial: big/s0 big/s1 small/s0",
    "partial: big/s2 big/s3",
  ]);
  assertEquals(fixture.backend.kernel, fixture.wanted);
});

Deno.test("a Service that grows by more than a share grows step by step, without a pause", async () => {
  await using fixture = await SyncFixture.synced([], { share: 20 });
  fixture.upsert(service("big", 0, 50));
  await fixture.pass(0);
  await fixture.pass(0);
  assertEquals(fixture.backend.log.slice(1), [
    "partial: big/s0",
    "partial: big/s0",
    "partial: big/s0",
  ]);
  assertEquals(fixture.backend.kernel, fixture.wanted);
});

Deno.test("a full sync between two shares does not end the rest", async () => {
  await using fixture = await SyncFixture.synced([], { share: 20 });
  for (let i = 0; i < 3; i++) fixture.upsert(service("big", i, 10));
  await fixture.clock.advance(0);
  fixture.loop.requestFull("a test");
  await fixture.pass(0);
  await fixture.pass(100);
  await fixture.pass(1_000);
  assertEquals(fixture.backend.kernel, fixture.wanted);
});
