/** The loop where no min sync period is set: pauses follow what the syncs take. */
import { assert, assertEquals } from "@std/assert";
import { service, SyncFixture } from "./fixture.ts";

/** A loop whose kernel takes so many milliseconds for each script. */
async function withKernel(
  milliseconds: () => number,
  minSyncPeriod: "adaptive" | number = "adaptive",
): Promise<SyncFixture> {
  const fixture = await SyncFixture.synced([], { minSyncPeriod });
  fixture.dataplane.during = () => fixture.clock.pass(milliseconds());
  return fixture;
}

/** A change each few milliseconds. @returns the pauses between the syncs of a kernel that takes so long */
async function burst(
  fixture: SyncFixture,
  options: { readonly changes: number; readonly every: number; readonly takes: number },
): Promise<number[]> {
  const ends: number[] = [];
  fixture.finish = () => {
    ends.push(fixture.clock.monotonic());
    return Promise.resolve();
  };
  for (let change = 0; change < options.changes; change++) {
    fixture.upsert(service(change % 9 + 1, { ports: [{ port: change + 1 }] }));
    await fixture.clock.advance(options.every);
  }
  return ends.slice(1).map((end, i) => end - (ends[i] ?? 0) - options.takes);
}

Deno.test("adaptive: a lone change is written at once, each time that one comes", async () => {
  await using fixture = await withKernel(() => 8);
  for (const number of [1, 2, 3, 4]) {
    const begin = fixture.clock.monotonic();
    fixture.upsert(service(number));
    await fixture.pass(0);
    assertEquals(fixture.clock.monotonic() - begin, 8);
    assertEquals(fixture.dataplane.log.at(-1), `partial: default/s${number}`);
    await fixture.pass(100);
  }
});

Deno.test("adaptive: a burst is gathered", async () => {
  await using fixture = await withKernel(() => 8);
  const pauses = await burst(fixture, { changes: 60, every: 5, takes: 8 });
  // The first ones are shorter: before them there was a quiet second.
  assert((pauses[0] ?? Infinity) < 16, `${pauses}`);
  const later = pauses.slice(2);
  assert(later.length > 3 && later.every((pause) => pause >= 32 && pause < 38), `${pauses}`);
  await fixture.pass(100);
  assertEquals(fixture.dataplane.kernel, fixture.wanted);
});

Deno.test("adaptive: syncs that failed count, too", async () => {
  await using fixture = await withKernel(() => 90);
  fixture.dataplane.failures.push("conflict", "conflict");
  fixture.upsert(service(1));
  await fixture.pass(0);
  // A partial script and the full one after it.
  assertEquals(fixture.loop.pause, 180 * 4 / 3);
});

Deno.test("a min sync period that is set holds, whatever the kernel takes", async () => {
  for (const period of [0, 10, 3_000]) {
    await using fixture = await withKernel(() => 300, period);
    fixture.upsert(service(1));
    await fixture.pass(0);
    fixture.upsert(service(2));
    await fixture.pass(Math.max(0, period - 1));
    assertEquals(fixture.dataplane.log.length, period === 0 ? 3 : 2);
    await fixture.pass(1);
    assertEquals([fixture.dataplane.log.length, fixture.loop.pause], [3, period]);
  }
});
