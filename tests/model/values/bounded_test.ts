import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { ChangeFilter, TopK } from "../../../lib/model/values/bounded.ts";

Deno.test("property: the first of many are those that sorting all of them gives", () => {
  fc.assert(fc.property(
    fc.array(fc.integer(), { maxLength: 5_000 }),
    fc.nat({ max: 50 }),
    (numbers, most) => {
      const top = new TopK<number>(most, (one, other) => one - other);
      for (const number of numbers) top.add(number);
      assertEquals(
        top.inOrder(),
        numbers.toSorted((one, other) => one - other).slice(0, most),
      );
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

Deno.test("a value is news once, and again after another one", () => {
  const filter = new ChangeFilter();
  const values = ["refused", "refused", "timed out", "refused"];
  assertEquals(values.map((value) => filter.changed("watch", value)), [true, false, true, true]);
});

Deno.test("a cleared key is news again", () => {
  const filter = new ChangeFilter();
  filter.changed("watch", "refused");
  assertEquals(filter.clear("watch"), true);
  assertEquals(filter.clear("watch"), false);
  assertEquals(filter.changed("watch", "refused"), true);
});

Deno.test("the key that was quiet longest is forgotten when there are too many", () => {
  const filter = new ChangeFilter(2);
  for (const key of ["a", "b", "a", "c"]) filter.changed(key, "x");
  assertEquals(filter.changed("a", "x"), false);
  assertEquals(filter.changed("b", "x"), true);
});
