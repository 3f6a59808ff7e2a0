import { assertEquals } from "@std/assert";
import { Generations } from "../../../lib/backend/nftables/watch.ts";

Deno.test("a transaction counts once, though two monitors tell of it", () => {
  const generations = new Generations();
  assertEquals([7, 8, 7, 8].map((each) => generations.tell(each, undefined)), [
    true,
    true,
    false,
    false,
  ]);
});

Deno.test("the next transaction of ours shows whether another program's was missed", () => {
  const generations = new Generations();
  generations.tell(2 ** 32 - 2, 100);
  generations.tell(2 ** 32 - 1, undefined);
  generations.interrupted();
  assertEquals(generations.isComplete, false);
  // 0 to 2 were ours, and no monitor told of them.
  generations.tell(3, 104);
  assertEquals(generations.isComplete, true);
  generations.interrupted();
  generations.tell(5, 105);
  assertEquals(generations.isComplete, false, "4 was another program's");
  generations.reset();
  generations.tell(6, 106);
  assertEquals(generations.isComplete, true);
});

Deno.test("what was missed before the first transaction of ours is not known until it begins again", () => {
  const generations = new Generations();
  generations.interrupted();
  for (const each of [10, 11]) generations.tell(each, each);
  assertEquals(generations.isComplete, false);
  generations.reset();
  generations.tell(12, 12);
  assertEquals(generations.isComplete, true);
});
