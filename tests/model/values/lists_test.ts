import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { compact, only } from "../../../lib/model/values/lists.ts";

Deno.test("a compact list holds the same", () => {
  assertEquals(compact([1, 2]), [1, 2]);
  assertStrictEquals(compact([]), compact([]));
});

Deno.test("an unchanged list is not copied", () => {
  const list = [1, 2, 3];
  assertStrictEquals(only(list, () => true), list);
  assertEquals(only(list, (each) => each !== 2), [1, 3]);
  assert(only(list, () => false) === only([4], () => false));
});
