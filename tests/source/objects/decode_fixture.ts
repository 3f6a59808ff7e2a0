/** Decoding in tests: an object with one thing changed, and what the decoder says to it. */
import { assertEquals } from "@std/assert";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import type { Kind, KindMap } from "../../../lib/model/cluster/objects.ts";

/** A JSON object of a test. */
export type Json = Readonly<Record<string, unknown>>;

/**
 * A copy of an object with one value replaced.
 *
 * @param path such as `spec.ports[0].port`; what is missing on the way is made
 * @param value `undefined` takes the field away
 */
export function withValue(object: Json, path: string, value: unknown): Json {
  const keys = [...path.matchAll(/\["([^"]+)"\]|\[(\d+)\]|([^.[\]]+)/g)]
    .map(([, quoted, index, name]) => quoted ?? index ?? name ?? "");
  return replaceAt(object, keys, value) as Json;
}

function replaceAt(container: unknown, keys: readonly string[], value: unknown): unknown {
  const [key, ...rest] = keys;
  if (key === undefined) return value;
  if (Array.isArray(container)) {
    return container.map((each, i) => `${i}` === key ? replaceAt(each, rest, value) : each);
  }
  const fields = { ...(container as Json | undefined) };
  fields[key] = replaceAt(fields[key], rest, value);
  if (fields[key] === undefined) delete fields[key];
  return fields;
}

/** Decodes an object that must be good. */
export function decodeGood<K extends Kind>(kind: K, raw: unknown): KindMap[K] {
  const decoded = createDecoder()(kind, raw);
  if (decoded.type !== "upsert") throw new Error(`the object is ${Deno.inspect(decoded)}`);
  return decoded.object;
}

/** A field, a value that cannot be used, and the rule that it breaks or the whole reason. */
export type BadValue = readonly [path: string, value: unknown, rule: string];

function reasonOf([path, value, rule]: BadValue): string {
  return rule.includes(", is ") ? rule : `${path} ${rule}, is ${JSON.stringify(value) ?? "null"}`;
}

/** Declares a test for each: of the object with this value an entry is left out, by name and reason. */
export function testOmissions(kind: Kind, good: Json, cases: readonly BadValue[]): void {
  for (const each of cases) {
    const [path, value] = each;
    const reason = reasonOf(each);
    Deno.test(`of a ${kind} a part is left out: ${reason}`, () => {
      const { omitted } = decodeGood(kind, withValue(good, path, value));
      assertEquals(omitted, [reason]);
    });
  }
}

/** Declares a test for each: the object with this value is refused, by name and reason. */
export function testRefusals(kind: Kind, good: Json, cases: readonly BadValue[]): void {
  const { namespace, name } = good["metadata"] as { namespace?: string; name: string };
  const key = namespace === undefined ? name : `${namespace}/${name}`;
  for (const each of cases) {
    const [path, value] = each;
    const reason = reasonOf(each);
    Deno.test(`a ${kind} is refused: ${reason}`, () => {
      const decoded = createDecoder()(kind, withValue(good, path, value));
      assertEquals(decoded, { type: "refuse", kind, key, reason });
    });
  }
}
