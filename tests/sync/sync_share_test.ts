import { assertEquals } from "@std/assert";
import { vipKey } from "../../lib/model/cluster/names.ts";
import type { ApiObject } from "../support/api_store.ts";
import { Pipeline } from "../support/pipeline.ts";
import { randomNumbers } from "../support/random.ts";
import { SyncFixture } from "./fixture.ts";
import { service as buildService } from "../support/cluster.ts";

/** A Service of a namespace, with a cluster IP of its own and this many ports. */
function service(
  namespace: string,
  number: number,
  ports: number,
  externalIPs: readonly string[] = [],
): ApiObject {
  return buildService({
    namespace,
    name: `s${number}`,
    clusterIP: `10.96.${namespace === "big" ? 0 : 1}.${number + 1}`,
    externalIPs,
    ports: Array.from({ length: ports }, (_, i) => ({ name: `p${i}`, port: i + 1 })),
  });
}

/** Holds each step of a Service to begin where its last step ended. */
function assertChained({ outcomes }: SyncFixture): void {
  const last = new Map<string, unknown>();
  for (const { change } of outcomes) {
    for (const [key, { before, after }] of change.services) {
      assertEquals(before, last.get(key) ?? [], key);
      last.set(key, after);
    }
  }
}

/** Holds that no two service ports have one frontend. */
function assertOneHolder({ desired }: SyncFixture): void {
  const frontends = [...desired.services.values()].flat().flatMap((port) =>
    [...port.clusterIPs, ...port.externalIPs].map((address) =>
      vipKey(address, port.protocol, port.port)
    )
  );
  assertEquals(new Set(frontends).size, frontends.length);
}

Deno.test("the changes of one namespace are written in shares", async () => {
  await using fixture = await SyncFixture.synced([], { share: 20 });
  for (let i = 0; i < 4; i++) fixture.upsert(service("big", i, 5));
  fixture.upsert(service("small", 0, 1));
  await fixture.pass(0);
  await fixture.pass(0);
  assertEquals(fixture.dataplane.log.slice(1), [
    "partial: big/s0 small/s0",
    "partial: big/s1 big/s2",
    "partial: big/s3",
  ]);
  assertEquals(fixture.dataplane.kernel, fixture.wanted);
});

Deno.test("a Service that grows by more than a share grows step by step, without a pause", async () => {
  await using fixture = await SyncFixture.synced([], { share: 20 });
  fixture.upsert(service("big", 0, 50));
  await fixture.pass(0);
  await fixture.pass(0);
  assertEquals(fixture.dataplane.log.slice(1), [
    "partial: big/s0",
    "partial: big/s0",
    "partial: big/s0",
  ]);
  assertEquals(fixture.dataplane.kernel, fixture.wanted);
});

Deno.test("a large Service goes step by step, and other Services have their turn", async () => {
  await using fixture = await SyncFixture.synced([], { share: 20 });
  fixture.upsert(service("big", 0, 50));
  await fixture.pass(0);
  await fixture.pass(0);
  fixture.remove("Service", "big/s0");
  fixture.upsert(service("small", 0, 1));
  await fixture.pass(1_000);
  await fixture.pass(0);
  assertEquals(fixture.dataplane.log.slice(4), [
    "partial: small/s0",
    "partial: big/s0",
    "partial: big/s0",
    "partial: big/s0",
  ]);
  assertEquals(fixture.dataplane.kernel, fixture.wanted);
});

Deno.test("Services that share an address and go together leave nothing", async () => {
  await using fixture = await SyncFixture.synced([], { share: 20 });
  const externalIPs = Array.from({ length: 30 }, (_, i) => `192.0.2.${i}`);
  for (let i = 0; i < 2; i++) fixture.upsert(service("big", i, 1, externalIPs));
  for (let turn = 0; turn < 10; turn++) await fixture.pass(1_000);
  for (let i = 0; i < 2; i++) fixture.remove("Service", `big/s${i}`);
  for (let turn = 0; turn < 10; turn++) await fixture.pass(1_000);
  assertEquals(fixture.desired.services.size, 0);
  assertChained(fixture);
});

Deno.test("a full sync between two shares does not end the rest", async () => {
  await using fixture = await SyncFixture.synced([], { share: 20 });
  for (let i = 0; i < 3; i++) fixture.upsert(service("big", i, 10));
  await fixture.clock.advance(0);
  fixture.loop.requestFull("a test");
  await fixture.pass(0);
  await fixture.pass(100);
  await fixture.pass(1_000);
  assertEquals(fixture.dataplane.kernel, fixture.wanted);
});

Deno.test("in shares, random changes end in the state that the objects ask for", async () => {
  for (let seed = 1; seed <= 10; seed++) {
    const random = randomNumbers(seed);
    await using fixture = await SyncFixture.synced([], { share: 12 });
    const objects = new Map<string, ApiObject>();
    for (let change = 0; change < 60; change++) {
      const number = random(4);
      const namespace = random(2) === 0 ? "big" : "small";
      const key = `${namespace}/s${number}`;
      if (random(3) === 0) {
        objects.delete(key);
        fixture.remove("Service", key);
      } else {
        const count = 1 + random(4);
        const externalIPs = Array.from(
          { length: random(20) },
          (_, i) => `192.0.2.${i + random(9)}`,
        );
        const object = service(namespace, number, count, externalIPs);
        objects.set(key, object);
        fixture.upsert(object);
      }
      if (random(3) === 0) await fixture.pass(0);
      assertOneHolder(fixture);
    }
    for (let turn = 0; turn < 60; turn++) await fixture.pass(1_000);
    const wanted = new Pipeline();
    wanted.load([...objects.values()]);
    assertEquals(
      new Map([...fixture.desired.services].toSorted()),
      new Map([...wanted.desired.services].toSorted()),
      `seed ${seed}`,
    );
    assertEquals(fixture.dataplane.kernel, fixture.wanted, `seed ${seed}`);
    assertChained(fixture);
  }
});
