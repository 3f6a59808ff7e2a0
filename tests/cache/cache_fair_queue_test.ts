import { assertEquals } from "@std/assert";
import { FairQueue } from "../../lib/cache/cache.ts";

/** A queue of these Services, each of cost 10. */
function queueOf(...keys: readonly string[]): FairQueue {
  const queue = new FairQueue();
  for (const key of keys) queue.add(key);
  return queue;
}

const share = (most: number) => ({ most, costOf: () => 10 });
const take = (queue: FairQueue, most: number) => [...queue.take(share(most))];

Deno.test("all that fits into one turn is taken at once", () => {
  const queue = queueOf("a/1", "b/1", "a/1");
  assertEquals(take(queue, 20), ["a/1", "b/1"]);
  assertEquals(queue.isEmpty, true);
  assertEquals(take(queue, 20), []);
});

Deno.test("a turn takes one Service of each namespace", () => {
  const queue = queueOf("a/1", "a/2", "a/3", "b/1");
  assertEquals(take(queue, 20), ["a/1", "b/1"]);
  assertEquals(take(queue, 20), ["a/2", "a/3"]);
  assertEquals(queue.isEmpty, true);
});

Deno.test("a namespace that comes later goes before one that had its turn", () => {
  const queue = queueOf("a/1", "a/2", "a/3", "a/4");
  assertEquals(take(queue, 10), ["a/1"]);
  queue.add("b/1");
  queue.add("a/5");
  assertEquals(take(queue, 10), ["b/1"]);
  assertEquals(take(queue, 30), ["a/2", "a/3", "a/4"]);
  assertEquals(take(queue, 30), ["a/5"]);
});

Deno.test("a Service that costs more than a turn is taken alone", () => {
  const queue = queueOf("a/1", "b/1");
  assertEquals(take(queue, 5), ["a/1"]);
  assertEquals(take(queue, 5), ["b/1"]);
  assertEquals(queue.isEmpty, true);
});

Deno.test("a Service that costs less goes before one that came earlier", () => {
  const queue = queueOf("large/1", "small/1");
  const costOf = (key: string) => key === "large/1" ? 100 : 1;
  assertEquals([...queue.take({ most: 20, costOf })], ["small/1"]);
  queue.add("small/1");
  assertEquals([...queue.take({ most: 20, costOf })], ["large/1"]);
});

Deno.test("without a share all is taken, the backlog too", () => {
  const queue = queueOf("a/1", "a/2", "a/3");
  take(queue, 10);
  queue.add("b/1");
  assertEquals([...queue.take()].toSorted(), ["a/2", "a/3", "b/1"]);
  assertEquals(queue.isEmpty, true);
});

Deno.test("a large Service has a share of its own", () => {
  const queue = queueOf("small/1", "large/1", "small/2");
  const costOf = (key: string) => key === "large/1" ? 100 : 1;
  const takeNext = () => [...queue.take({ most: 20, costOf })];
  assertEquals(takeNext(), ["small/1"]);
  queue.add("other/1");
  assertEquals(takeNext(), ["large/1"]);
  assertEquals(takeNext(), ["other/1", "small/2"]);
  assertEquals(queue.isEmpty, true);
});
