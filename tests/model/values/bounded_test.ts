import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { TopK } from "../../../lib/model/values/bounded.ts";

Deno.test("property: the first of many are those that sorting all of them gives", () => {
  fc.assert(fc.property(
    fc.array(fc.integer(), { maxLength: 5_000 }),
    fc.nat({ max: 50 }),
    (numbers, most) => {
      const top = new TopK<number>(most, (one, other) => one - other);
      for (const number of numbers) top.add(number);
      assertEquals(top.inOrder(), numbers.toSorted((one, other) => one - other).slice(0, most));
    },
  ));
});

Deno.test("never are more than a few sorted at a time, however many are added", () => {
  let compared = 0;
  let longest = 0;
  const top = new TopK<number>(10, (one, other) => {
    compared++;
    return one - other;
  });
  for (let i = 0; i < 100_000; i++) {
    compared = 0;
    top.add((7919 * i) % 100_003);
    longest = Math.max(longest, compared);
  }
  assertEquals(longest < 20_000, true, `${longest} comparisons at once`);
});
