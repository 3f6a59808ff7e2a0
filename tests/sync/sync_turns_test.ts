import { assert, assertEquals } from "@std/assert";
import { apiServerPort } from "../../lib/policy/claims.ts";
import type { ApiObject } from "../support/api_store.ts";
import { Pipeline } from "../support/pipeline.ts";
import { service, SyncFixture } from "./fixture.ts";
import { service as buildService } from "../support/cluster.ts";

const MANY = 3_000;
/** At most so many Services are worked out at one go. */
const MOST = 500;
/** Milliseconds of a piece of work after which others have their turn. */
const LONG = 20;

/** Services of which each two ask for one external IP. */
function services(count: number): ApiObject[] {
  return Array.from({ length: count }, (_, i) =>
    buildService({
      name: `s${i}`,
      clusterIP: `10.96.${i >> 8}.${i & 255}`,
      externalIPs: [`192.0.2.${(i >> 1) & 255}`],
      ports: [{ port: 1_024 + (i >> 9) }],
    }));
}

Deno.test("the work for many Services lets others work in turns", async () => {
  await using fixture = new SyncFixture();
  fixture.clock.work = LONG;
  fixture.deliver(services(MANY));
  await fixture.start();
  while (fixture.starts === 0) await fixture.clock.advance(0);
  let turns = 0;
  while (fixture.dataplane.log.length === 0) {
    await fixture.clock.advance(0);
    // This is other work: it sees the state of before, which the kernel holds.
    if (fixture.dataplane.log.length === 0) assertEquals(fixture.desired.services.size, 0);
    if (++turns === 3) {
      assertEquals(fixture.starts, 1, "what comes now is for the next sync");
      fixture.remove("Service", "default/s0");
      fixture.upsert(service(1, { clusterIP: "10.97.0.1" }));
    }
  }
  assert(turns >= MANY / MOST, `${turns} turns`);
  fixture.clock.work = 0;
  await fixture.pass(0);
  await fixture.pass(1_000);
  assertEquals(fixture.dataplane.log.at(-1), "partial: default/s0 default/s1");
  assertEquals(fixture.dataplane.kernel, fixture.wanted);
});

Deno.test("a round that is asked for between two turns comes after the sync", async () => {
  await using fixture = new SyncFixture();
  fixture.clock.work = LONG;
  fixture.deliver(services(MANY));
  await fixture.start();
  for (let turn = 0; turn < 1.5 * MANY / MOST; turn++) await fixture.clock.advance(0);
  assertEquals(fixture.dataplane.log, []);
  // The claims are being settled with what was known then of the node's own ports.
  const address = "192.0.2.0";
  fixture.ownPorts = [apiServerPort(address, 1_024)];
  fixture.loop.nodeChanged();
  while (fixture.dataplane.log.length === 0) await fixture.clock.advance(0);
  await fixture.pass(1_000);
  for (let turn = 0; turn < MANY / 100; turn++) await fixture.clock.advance(0);
  assertEquals(fixture.dataplane.kernel.get("default/s0")?.includes(address), false);
  assertEquals(fixture.dataplane.kernel, fixture.wanted);
});

Deno.test("no sync begins while a list of many objects is taken in", async () => {
  await using fixture = await SyncFixture.synced(services(10));
  await fixture.pass(1_000);
  const syncs = fixture.starts;
  fixture.clock.work = LONG;
  fixture.deliver(services(3 * MANY), ["Service"]);
  fixture.remove("Service", "default/s0");
  fixture.loop.requestFull("a test");
  let turns = 0;
  for (; fixture.starts === syncs; turns++) await fixture.clock.advance(0);
  assert(turns >= 3, `${turns} turns`);
  assertEquals(fixture.cache.services.size, 3 * MANY - 1, "the list was complete");
  fixture.clock.work = 0;
  await fixture.pass(1_000);
  assertEquals(fixture.cache.services.has("default/s0"), false);
  assertEquals(fixture.dataplane.kernel, fixture.wanted);
});

Deno.test("a full sync asked for during a partial script replaces everything", async () => {
  await using fixture = await SyncFixture.synced(services(10));
  const { dataplane, clock } = fixture;
  const changing = dataplane.changing.bind(dataplane);
  let isMaking = false;
  dataplane.changing = function* (change) {
    isMaking = true;
    return yield* changing(change);
  };
  clock.work = LONG;
  fixture.upsert(service(1, { clusterIP: "10.97.0.1" }));
  while (!isMaking) await clock.advance(0);
  dataplane.kernel.clear();
  fixture.loop.requestFull("a test");
  clock.work = 0;
  await fixture.pass(1_000);
  assertEquals(dataplane.log.filter((line) => line.startsWith("partial")), []);
  assertEquals(fixture.outcomes.at(-1)?.isFull, true);
  assertEquals(dataplane.kernel, fixture.wanted);
});

Deno.test("the steps that follow the sync of many Services have a turn each", async () => {
  await using fixture = await SyncFixture.synced(services(10));
  fixture.clock.work = LONG;
  fixture.upsert(service(1, { clusterIP: "10.97.0.1" }));
  const [outcomes, followed] = [fixture.outcomes.length, fixture.followed.length];
  while (fixture.outcomes.length === outcomes) await fixture.clock.advance(0);
  assertEquals(fixture.followed.length, followed);
  await fixture.clock.advance(0);
  assertEquals(fixture.followed.length, followed + 1);
});

Deno.test("a few Services are worked out at one go: a lone change waits for nothing", async () => {
  await using fixture = await SyncFixture.synced(services(20));
  const before = fixture.clock.sleeps.length;
  fixture.upsert(service(1, { clusterIP: "10.97.0.1" }));
  await fixture.pass(0);
  assertEquals(fixture.dataplane.log.at(-1), "partial: default/s1");
  const zeros = fixture.clock.sleeps.slice(before).filter((each) => each === 0);
  assertEquals(zeros, [0], "the pause before the sync alone");
});

Deno.test("a step in turns is the same as one without", () => {
  const [whole, turned] = [new Pipeline(), new Pipeline()];
  whole.load(services(2 * MANY));
  turned.load([...services(10), service(2 * MANY, { clusterIP: "10.97.0.1" })]);
  const few = [...turned.desired.services.keys()];
  turned.deliver(services(2 * MANY));
  const updating = turned.desired.updating(turned.cache, turned.cache.takeDirty());
  let turns = 0;
  for (let turn = updating.next(); !turn.done; turn = updating.next()) {
    turns++;
    assertEquals([...turned.desired.services.keys()], few);
  }
  assert(turns >= 2 * MANY / MOST, `${turns} turns`);
  assertEquals(turned.desired.services, whole.desired.services);
  assertEquals(turned.desired.conflicts(), whole.desired.conflicts());
  assertEquals(turned.desired.conflicts().length, MANY);
});
