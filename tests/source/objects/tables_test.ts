/**
 * The tables of fields and the decoders are of one mind: a decoder asks for all that its table has, and
 * for nothing else, because protobuf has only that.
 */
import { assertEquals } from "@std/assert";
import type { Kind } from "../../../lib/model/cluster/objects.ts";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import { type Message, TABLES } from "../../../lib/source/objects/tables.ts";

/** Fields that are not the decoder's: the watch reads them before. */
const OF_THE_WATCH: ReadonlySet<string> = new Set(["metadata.resourceVersion"]);

/** Words that the decoders decide by: with these in place, no field is passed over. */
const WORDS: Readonly<Record<string, unknown>> = {
  "metadata.labels": { "kubernetes.io/service-name": "web" },
  "metadata.annotations": {},
  "spec.clusterIP": "10.96.0.1",
  "spec.clusterIPs": ["10.96.0.1"],
  "spec.type": "LoadBalancer",
  "spec.externalTrafficPolicy": "Local",
  "spec.internalTrafficPolicy": "Local",
  "spec.sessionAffinity": "ClientIP",
  "spec.externalIPs": ["192.0.2.1"],
  "spec.loadBalancerSourceRanges": ["192.0.2.0/24"],
  "spec.ports.protocol": "TCP",
  "status.addresses.type": "InternalIP",
  "status.addresses.address": "192.0.2.1",
  "addressType": "IPv4",
  "ports.protocol": "TCP",
  "endpoints.addresses": ["10.244.0.1"],
};

/** A value for each field of a table, by the field's kind where no word is asked for. */
function exampleOf(fields: Message, path: string): Record<string, unknown> {
  return Object.fromEntries(
    Object.values(fields).map(({ name, value, repeated }) => {
      const place = `${path}${name}`;
      if (place in WORDS) return [name, WORDS[place]];
      const example = typeof value === "object"
        ? exampleOf(value, `${place}.`)
        : value === "integer"
        ? 80
        : value === "boolean"
        ? true
        : "web";
      return [name, repeated ? [example] : example];
    }),
  );
}

/** Notes every field of the table that is asked for. */
function watched(value: unknown, path: string, asked: Set<string>): unknown {
  if (Array.isArray(value)) return value.map((each) => watched(each, path, asked));
  if (typeof value !== "object" || value === null || path in WORDS) return value;
  return new Proxy(value, {
    get: (target, name) => {
      const place = path === "" ? String(name) : `${path}.${String(name)}`;
      asked.add(place);
      return watched(Reflect.get(target, name), place, asked);
    },
  });
}

function pathsOf(fields: Message, path = ""): string[] {
  return Object.values(fields).flatMap(({ name, value }) => [
    `${path}${name}`,
    ...typeof value === "object" ? pathsOf(value, `${path}${name}.`) : [],
  ]);
}

Deno.test("a decoder asks for every field of the tables", () => {
  const asked = new Map<string, Set<string>>();
  for (const [kind, fields] of Object.entries(TABLES)) {
    const seen = new Set<string>();
    asked.set(kind, seen);
    const example = exampleOf(fields, "");
    createDecoder()(kind as Kind, watched(example, "", seen));
    const { spec } = example as { readonly spec?: Record<string, unknown> };
    // podCIDR stands in for podCIDRs.
    if (kind === "Node" && spec) delete spec["podCIDRs"];
    const decoded = createDecoder()(kind as Kind, watched(example, "", seen));
    assertEquals(decoded.type, "upsert", Deno.inspect(decoded));
  }
  const anywhere = new Set([...asked.values()].flatMap((seen) => [...seen]));
  const unasked = Object.entries(TABLES).flatMap(([kind, fields]) =>
    pathsOf(fields)
      .filter((path) => !(path.startsWith("metadata.") ? anywhere : asked.get(kind))?.has(path))
      .filter((path) => !OF_THE_WATCH.has(path))
      .map((path) => `${kind} ${path}`)
  );
  assertEquals(unasked, []);
  const unknown = [...asked].flatMap(([kind, seen]) => {
    const known = new Set(pathsOf(TABLES[kind as Kind]));
    return [...seen].filter((path) => !known.has(path)).map((path) => `${kind} ${path}`);
  });
  assertEquals(unknown, []);
});
