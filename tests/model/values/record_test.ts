import { assertEquals } from "@std/assert";
import { fieldAt, isRecord } from "../../../lib/model/values/record.ts";

Deno.test("an object has fields, a list and null have none", () => {
  assertEquals([{}, { a: 1 }, [], null, undefined, "text"].map(isRecord), [
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
});

Deno.test("a field is found by the names that lead to it", () => {
  const value = { spec: { ports: [80], clusterIP: null } };
  assertEquals(fieldAt(value, "spec", "ports"), [80]);
  assertEquals(fieldAt(value, "spec", "clusterIP"), null);
  assertEquals(fieldAt(value, "spec", "clusterIP", "deeper"), undefined);
  assertEquals(fieldAt(value, "spec", "ports", "0"), undefined);
});

Deno.test("what every object inherits is not a field", () => {
  assertEquals(fieldAt({}, "constructor"), undefined);
  assertEquals(fieldAt(JSON.parse('{"__proto__": {"a": 1}}'), "a"), undefined);
});
