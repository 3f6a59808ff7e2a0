import { assertEquals, assertMatch } from "@std/assert";
import { apiServerPort } from "../../lib/policy/claims.ts";
import { service, stored, SyncFixture } from "./fixture.ts";

Deno.test("each refusal is warned of once", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  const { dataplane, logger, told } = fixture;
  const before = new Map(dataplane.kernel);
  for (let times = 0; times < 3; times++) fixture.upsert(service(1, { ports: [] }));
  await fixture.pass(1_000);
  assertEquals(logger.at("warn").length, 1);
  assertMatch(logger.at("warn").join(), /"key":"default\/s1","reason":"spec\.ports must hold/);
  assertEquals(told.filter((each) => each.startsWith("refused")), [
    "refused object Service default/s1",
  ]);
  assertEquals(dataplane.kernel, before);
  fixture.upsert(service(1, { ports: [{ port: 0 }] }));
  await fixture.pass(0);
  assertEquals(logger.at("warn").length, 2);
});

Deno.test("a Service's conflicts are one warning, until they are over and come back", async () => {
  const clash = { externalIPs: ["192.0.2.1", "192.0.2.2"] };
  await using fixture = await SyncFixture.synced([service(1, clash), service(2, clash)]);
  const { logger, told } = fixture;
  const conflicts = () => told.filter((each) => each.startsWith("conflict"));
  const both = clash.externalIPs.map((ip) => `conflict ${ip} . tcp . 80 default/s1 default/s2`);
  assertEquals(conflicts(), both);
  assertMatch(
    logger.at("warn").join(),
    /default\/s2 does not get .*: 192\.0\.2\.1:80\/tcp belongs to Service default\/s1, which is older/,
  );
  for (const number of [1, 2, 1]) {
    fixture.upsert(service(number, { ...clash, sessionAffinity: "ClientIP" }));
    await fixture.pass(1_000);
  }
  assertEquals(conflicts(), both);
  fixture.remove("Service", "default/s1");
  await fixture.pass(1_000);
  fixture.upsert(service(1, clash));
  await fixture.pass(1_000);
  assertEquals(conflicts(), [...both, ...both]);
  assertEquals(logger.at("warn").length, 2);
});

Deno.test("the observer gets what was applied and what failed", async () => {
  await using fixture = await SyncFixture.synced([]);
  const { dataplane, told } = fixture;
  told.length = 0;
  dataplane.during = () => fixture.clock.advance(250);
  dataplane.failures.push("not-permitted");
  fixture.upsert(service(1));
  await fixture.pass(0);
  await fixture.pass(250);
  assertEquals(told, ["failed partial: not-permitted", "synced full in 0.5"]);
});

/** Outcomes as the Services that changed, what became of it, and whether it was about everything. */
function outcomesOf({ outcomes }: SyncFixture): string[] {
  return outcomes.splice(0).map(({ change, applied, isFull }) =>
    `${[...change.services.keys()].sort()} ${applied ? "done" : "failed"}${isFull ? " full" : ""}`
  );
}

Deno.test("the outcome of each try is reported", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  assertEquals(outcomesOf(fixture), ["default/s1 done full"]);
  fixture.upsert(service(2));
  await fixture.pass(1_000);
  assertEquals(outcomesOf(fixture), ["default/s2 done"]);
  fixture.dataplane.failures.push("conflict", "busy");
  fixture.upsert(service(3));
  await fixture.pass(1_000);
  assertEquals(outcomesOf(fixture), ["default/s3 failed"]);
  await fixture.pass(1_000);
  assertEquals(outcomesOf(fixture), [" done full"]);
});

Deno.test("the next sync waits for what follows a sync", async () => {
  await using fixture = await SyncFixture.synced([]);
  fixture.followed.splice(0);
  const { promise, resolve } = Promise.withResolvers<void>();
  fixture.finish = () => promise;
  fixture.upsert(service(1));
  await fixture.pass(0);
  assertEquals(fixture.loop.progress.waitingSince, undefined);
  fixture.upsert(service(2));
  await fixture.pass(0);
  assertEquals(fixture.loop.progress.waitingSince, fixture.clock.monotonic(), "it is queued");
  await fixture.pass(10_000);
  assertEquals([fixture.dataplane.log.length, fixture.followed], [2, []]);
  resolve();
  await fixture.pass(0);
  assertEquals(fixture.followed, [true, true]);
  assertEquals(fixture.dataplane.log.length, 3);
});

Deno.test("a round can be asked for though nothing has changed", async () => {
  await using fixture = await SyncFixture.synced([service(1)]);
  outcomesOf(fixture);
  fixture.loop.nodeChanged();
  await fixture.pass(1_000);
  assertEquals(outcomesOf(fixture), [" done"]);
  await fixture.pass(60_000);
  assertEquals(outcomesOf(fixture), []);
});

Deno.test("the loop tells for how long the sync at hand has been running", async () => {
  await using fixture = await SyncFixture.synced([]);
  const { loop, clock, dataplane } = fixture;
  let busy = 0;
  dataplane.during = async () => {
    await clock.advance(5_000);
    busy = loop.busy;
  };
  fixture.upsert(service(1));
  await fixture.pass(0);
  assertEquals([busy, loop.busy], [5_000, 0]);
});

Deno.test("a sync that gets on is not stuck: the time counts from its last part", async () => {
  await using fixture = await SyncFixture.synced([]);
  const { loop, clock, dataplane } = fixture;
  const busy: number[] = [];
  dataplane.during = async (checkpoint) => {
    for (let part = 0; part < 2; part++) {
      await clock.advance(100_000);
      busy.push(loop.busy);
      checkpoint();
      busy.push(loop.busy);
    }
  };
  fixture.upsert(service(1));
  await fixture.pass(0);
  assertEquals(busy, [100_000, 0, 100_000, 0]);
  assertEquals(loop.progress.moved, clock.monotonic());
});

Deno.test("the oldest change waits until the kernel has it", async () => {
  await using fixture = await SyncFixture.synced([]);
  const { loop, clock, dataplane } = fixture;
  const progress = () => {
    const { waitingSince, moved, failures } = loop.progress;
    return { waitingSince, moved, failures };
  };
  dataplane.during = (checkpoint) => checkpoint();
  dataplane.failures.push("not-permitted", "not-permitted");
  const waitingSince = clock.monotonic();
  fixture.upsert(service(1));
  await fixture.pass(0);
  assertEquals(progress(), { waitingSince, moved: -Infinity, failures: 2 });
  await fixture.pass(1);
  fixture.upsert(service(2));
  await fixture.pass(1);
  assertEquals(progress(), { waitingSince, moved: -Infinity, failures: 2 });
  await fixture.pass(1_000);
  assertEquals(progress(), { waitingSince: undefined, moved: clock.monotonic(), failures: 0 });
});

Deno.test("the loop is busy from the start until it runs", async () => {
  await using fixture = new SyncFixture();
  const { loop, clock } = fixture;
  await clock.advance(4_000);
  assertEquals(loop.busy, 4_000);
  await fixture.start();
  await clock.advance(3_600_000);
  assertEquals(loop.busy, 0, "it waits for the sources");
  const after = Promise.withResolvers<void>();
  fixture.finish = () => after.promise;
  fixture.deliver([service(1)]);
  await fixture.pass(0);
  await clock.advance(130_000);
  assertEquals(loop.busy, 130_000);
  after.resolve();
  await fixture.pass(0);
  assertEquals(loop.busy, 0);
});

Deno.test("an invalid part of an object is reported once, and the rest is used", async () => {
  const clash = { externalIPs: ["", "192.0.2.1"] };
  await using fixture = await SyncFixture.synced([service(1, clash)]);
  const { logger, told } = fixture;
  for (let times = 0; times < 3; times++) fixture.upsert(service(1, clash));
  await fixture.pass(1_000);
  assertMatch(
    logger.at("warn").join(),
    /^warn left out a part of the object; [^\n]*"key":"default\/s1","reason":"spec\.externalIPs\[0\] /,
  );
  assertEquals(logger.at("warn").length, 1);
  assertEquals(told.filter((each) => each.startsWith("refused")), [
    "refused part Service default/s1",
  ]);
});

Deno.test("a Service that needs what the kernel refuses is warned of once", async () => {
  const lb = { status: { loadBalancer: { ingress: [{ ip: "192.0.2.9" }] } } };
  const ranged = (changes = {}) => ({
    ...service(1, {
      type: "LoadBalancer",
      loadBalancerSourceRanges: ["198.51.100.0/24"],
      ...changes,
    }),
    ...lb,
  });
  await using fixture = await SyncFixture.synced([ranged(), service(2)]);
  const { logger, told } = fixture;
  const seen = () => told.filter((each) => each.startsWith("unsupported")).length;
  assertEquals(seen(), 1);
  assertMatch(
    logger.at("warn").join(),
    /Service default\/s1 is refused: its load-balancer IPs get no rules.*: nft refuses it/,
  );
  fixture.upsert(ranged({ sessionAffinity: "ClientIP" }));
  await fixture.pass(1_000);
  assertEquals([seen(), logger.at("warn").length], [1, 1]);
  fixture.upsert(service(1));
  await fixture.pass(1_000);
  fixture.upsert(ranged());
  await fixture.pass(1_000);
  assertEquals([seen(), logger.at("warn").length], [2, 2]);
});

Deno.test("a Service over a limit is refused alone, once", async () => {
  const externalIPs = Array.from({ length: 10_000 }, (_, i) => `192.0.${i >> 8}.${i & 255}`);
  const ports = Array.from({ length: 400 }, (_, i) => ({ name: `p${i}`, port: i + 1 }));
  await using fixture = await SyncFixture.synced([service(1), service(2)]);
  const { dataplane, logger, told } = fixture;
  const before = new Map(dataplane.kernel);
  for (const affinity of ["None", "ClientIP", "None"]) {
    fixture.upsert(service(1, { externalIPs, ports, sessionAffinity: affinity }));
    await fixture.pass(1_000);
  }
  assertEquals(told.filter((each) => each.startsWith("refused")), [
    "refused object Service default/s1",
  ]);
  assertMatch(logger.at("warn").join(), /last good state stays.*4,000,800 elements/);
  assertEquals(dataplane.kernel, before);
  fixture.upsert(service(1));
  await fixture.pass(1_000);
  fixture.upsert(service(1, { externalIPs, ports }));
  await fixture.pass(1_000);
  assertEquals(logger.at("warn").length, 2);
});

Deno.test("a state from before the start lets go of what the process needs itself", async () => {
  await using fixture = new SyncFixture();
  const { loop, dataplane } = fixture;
  await loop.restore(stored([service(1, { externalIPs: ["192.0.2.6"] })]));
  await fixture.start();
  await fixture.pass(0);
  assertMatch(dataplane.kernel.get("default/s1") ?? "", /192\.0\.2\.6/);
  fixture.ownPorts = [apiServerPort("192.0.2.6", 80)];
  loop.nodeChanged();
  await fixture.pass(0);
  await fixture.pass(1_000);
  assertEquals(dataplane.kernel.get("default/s1")?.includes("192.0.2.6"), false);
  assertEquals(loop.stale, true);
});
