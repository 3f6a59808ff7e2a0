import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { compact, only, sharedKeys, union } from "../../../lib/model/values/lists.ts";

Deno.test("a compact list holds the same, and empty ones are one list", () => {
  assertEquals(compact([1, 2]), [1, 2]);
  assertStrictEquals(compact([]), compact([]));
});

Deno.test("keys that two have are told, and may be deleted meanwhile", () => {
  const few = new Map([["a", 1], ["b", 2], ["c", 3]]);
  const many = new Set(["a", "c", "d", "e"]);
  for (const key of sharedKeys(few, many)) few.delete(key);
  assertEquals([...few.keys()], ["b"]);
  for (const key of sharedKeys(many, new Map([["d", 0], ["e", 0]]))) many.delete(key);
  assertEquals([...many], ["a", "c"]);
});

Deno.test("a list that stays as it is is no second one", () => {
  const list = [1, 2, 3];
  assertStrictEquals(only(list, () => true), list);
  assertEquals(only(list, (each) => each !== 2), [1, 3]);
  assert(only(list, () => false) === only([4], () => false));
});

Deno.test("a union has each entry once, the set's first", () => {
  assertEquals([...union(new Set([2, 1]), [3, 1, 4])], [2, 1, 3, 4]);
});

Deno.test("a union gives way while it passes over very many, and passes on where others do", () => {
  const many = Array.from({ length: 300 }, (_, i) => i);
  const breaks = [...union(new Set(many), [...many, undefined])].filter((each) =>
    each === undefined
  );
  assertEquals(breaks.length, 4);
});
