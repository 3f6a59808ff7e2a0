import { assertEquals } from "@std/assert";
import { fieldAt, isRecord, sameValue } from "../../../lib/model/values/record.ts";
import fc from "fast-check";
import { changesFixedRules } from "../../../lib/model/kernel/desired.ts";
import { Pipeline } from "../../support/pipeline.ts";

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

/** Any plain data as a model has it. */
const value = fc.jsonValue({ maxDepth: 3 });

Deno.test("values are the same where their JSON is, whatever the order of their fields", () => {
  fc.assert(fc.property(value, value, (one, other) => {
    assertEquals(sameValue(one, structuredClone(one)), true);
    assertEquals(sameValue([one, other], [other, one]), sameValue(one, other));
    assertEquals(sameValue({ a: one, b: other }, { b: other, a: one }), true);
    assertEquals(sameValue(one, { of: one }), false);
  }));
});

Deno.test("lists are compared in their order", () => {
  assertEquals(sameValue([1, 2], [2, 1]), false);
  assertEquals(sameValue([], {}), false);
  assertEquals(sameValue([1], [1, 2]), false);
  assertEquals(sameValue({ a: undefined }, {}), true);
  assertEquals(sameValue(null, {}), false);
});

Deno.test("all node fields but ServiceCIDRs and own addresses change all services", () => {
  const { node: before } = new Pipeline().desired;
  const change = (after: object) =>
    changesFixedRules({ node: { before, after: { ...before, ...after } } });
  for (const field of Object.keys(before)) assertEquals(change({ [field]: "other" }), true, field);
  assertEquals(change({ fieldToCome: 1 }), true);
  for (const field of Object.keys(before.families[4])) {
    for (const family of [4, 6] as const) {
      const families = {
        ...before.families,
        [family]: { ...before.families[family], [field]: ["other"] },
      };
      assertEquals(
        change({ families }),
        !["serviceCIDRs", "guardedCIDRs", "guardedServers"].includes(field),
        field,
      );
    }
  }
  assertEquals(changesFixedRules({ node: undefined }), false);
});
