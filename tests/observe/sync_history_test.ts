import { assertEquals } from "@std/assert";
import { SyncHistory } from "../../lib/observe/sync_history.ts";
import { ManualClock, START } from "../support/clock_and_log.ts";

Deno.test("the syncs of half a minute are one span of each kind", () => {
  const clock = new ManualClock(START);
  const history = new SyncHistory(clock);
  history.add({ kind: "full", seconds: 1 });
  history.add({ kind: "partial", seconds: 0.25 });
  clock.pass(10_000);
  history.add({ kind: "partial", seconds: 0.75 });
  clock.pass(25_000);
  history.add({ kind: "partial", seconds: 0.1 });
  assertEquals(history.spans(), [
    { kind: "full", age: 20, count: 1, least: 1, mean: 1, most: 1 },
    { kind: "partial", age: 20, count: 2, least: 0.25, mean: 0.5, most: 0.75 },
    { kind: "partial", age: 0, count: 1, least: 0.1, mean: 0.1, most: 0.1 },
  ]);
});

Deno.test("what is older than an hour is forgotten, however many syncs there were", () => {
  const clock = new ManualClock(START);
  const history = new SyncHistory(clock);
  for (let i = 0; i < 10_000; i++) {
    history.add({ kind: "partial", seconds: 0.01 });
    clock.pass(1_000);
  }
  const spans = history.spans();
  assertEquals(spans.length <= 121, true);
  assertEquals(spans.every(({ age }) => age <= 3_600), true);
  clock.pass(3_700_000);
  assertEquals(history.spans(), []);
});
