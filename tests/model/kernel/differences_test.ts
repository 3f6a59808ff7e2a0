import { assertEquals } from "@std/assert";
import { without } from "../../../lib/model/kernel/differences.ts";

Deno.test("a rule that the others have less often is left, however it is written", () => {
  const keyOf = (rule: string) => rule.toLowerCase();
  assertEquals(without(["A", "b", "a", "c"], { others: ["B", "a", "d"], keyOf }), ["a", "c"]);
  assertEquals(without([], { others: ["a"], keyOf }), []);
});
