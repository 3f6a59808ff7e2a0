/** Whatever comes, the decoder answers, and what it takes can harm no script and no log line. */
import { assert, assertEquals } from "@std/assert";
import { parse as parseYaml } from "@std/yaml";
import fc from "fast-check";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import { parseAddress, parseCidr } from "../../../lib/model/values/address.ts";
import {
  type Kind,
  type KindMap,
  KINDS,
  SERVICE_TYPES,
} from "../../../lib/model/cluster/objects.ts";
import { cluster } from "../../support/arbitrary.ts";
import type { ApiObject } from "../../support/pipeline.ts";
import { wordsOf } from "../../support/table.ts";

const NAME = /^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)?$/;
const ONE_LINE = /^[^\p{Cc}\p{Zl}\p{Zp}]*$/u;

/** Fields that reach no script: they are compared, or sent as JSON. */
const FREE_TEXT: ReadonlySet<string> = new Set(["uid"]);
/** Values of labels: they are compared, and shown to people. */
const PLACES: ReadonlySet<string> = new Set(["zone", "zoneHints", "nodeHints"]);
const LABEL_VALUE = /^[-A-Za-z0-9_.]{0,63}$/;
const ADDRESS_FIELDS: ReadonlySet<string> = new Set(
  wordsOf("address addresses clusterIPs externalIPs loadBalancerIPs"),
);
const CIDR_FIELDS: ReadonlySet<string> = new Set(["sourceRanges", "cidrs", "podCIDRs"]);
const ENUMS: ReadonlySet<string> = new Set([
  "tcp",
  "udp",
  "sctp",
  "Cluster",
  "Local",
  ...SERVICE_TYPES,
]);

/** Every string of a decoded object is an address, a CIDR, a name or a word; every number is whole. */
function assertCanonical(field: string, value: unknown): void {
  if (Array.isArray(value)) {
    if (field === "omitted") return assertLines(value);
    for (const each of value) assertCanonical(field, each);
  } else if (typeof value === "object" && value !== null) {
    for (const [name, each] of Object.entries(value)) assertCanonical(name, each);
  } else if (typeof value === "number") {
    assert(Number.isSafeInteger(value) && value >= 0 || field === "created", `${field} ${value}`);
  } else if (typeof value === "string" && !FREE_TEXT.has(field)) {
    if (ADDRESS_FIELDS.has(field)) assertEquals(parseAddress(value), value);
    else if (PLACES.has(field)) assert(LABEL_VALUE.test(value) || NAME.test(value), value);
    else if (CIDR_FIELDS.has(field)) assertEquals(parseCidr(value), value);
    else assert(NAME.test(value) || ENUMS.has(value), `${field} ${JSON.stringify(value)}`);
  }
}

/** A few lines for people, with nothing in them that a terminal would obey. */
function assertLines(lines: readonly string[]): void {
  assert(lines.length > 0 && lines.length <= 6, `${lines.length} lines`);
  for (const line of lines) assert(ONE_LINE.test(line) && line.length < 300, JSON.stringify(line));
}

/** Decodes, and holds the answer to its contract. */
function check<K extends Kind>(kind: K, raw: unknown): KindMap[K] | undefined {
  const decoded = createDecoder()(kind, raw);
  assert(ONE_LINE.test(decoded.key) && decoded.key.length <= 507, JSON.stringify(decoded.key));
  if (decoded.type === "refuse") {
    assert(ONE_LINE.test(decoded.reason), JSON.stringify(decoded.reason));
    // The reason, and those of the first entries that were left out.
    assert(decoded.reason.length < 7 * 300, decoded.reason);
  }
  if (decoded.type !== "upsert") return undefined;
  assertCanonical("", decoded.object);
  return decoded.object;
}

const kind = fc.constantFrom(...KINDS);

Deno.test("the decoder has an answer to anything, also below an object's name", () => {
  const anything = fc.anything({ withBigInt: true, withDate: true, withNullPrototype: true });
  const named = fc.record({
    metadata: fc.record({ name: fc.constant("web") }),
    spec: fc.jsonValue(),
    status: fc.jsonValue(),
    addressType: fc.constantFrom("IPv4", "IPv6"),
    ports: fc.jsonValue(),
    endpoints: fc.jsonValue(),
  });
  fc.assert(
    fc.property(kind, fc.oneof(anything, named), (kind, raw) => {
      check(kind, raw);
    }),
    { numRuns: 2_000 },
  );
});

/** Text that is nearly what belongs there, or that breaks out of a script. */
const poison = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constant(undefined),
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.constantFrom(
    "",
    "web\n",
    'x" }; flush ruleset; "',
    "10.0.0.1; flush ruleset",
    "::ffff:10.0.0.1",
    "010.0.0.1",
    "fe80::1%eth0",
    "10.0.0.0/8, 0.0.0.0/0",
    "__proto__",
    "Ｗeb",
    0,
    -0,
    70_000,
    1e308,
    80.5,
    null,
  ),
);

/** All places of an object, as ways to them. */
function waysOf(value: unknown, way: readonly string[] = []): string[][] {
  const below = typeof value === "object" && value !== null ? Object.entries(value) : [];
  return [[...way], ...below.flatMap(([key, each]) => waysOf(each, [...way, key]))];
}

function poisoned(object: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const copy = Array.isArray(object) ? [...object] : { ...object as object };
  const fields = copy as Record<string, unknown>;
  fields[key] = poisoned(fields[key], rest, value);
  return copy;
}

Deno.test("an object with some values spoilt is taken in canonical form, or refused", () => {
  const spoilt = cluster.chain((objects) => fc.constantFrom(...objects)).chain((object) => {
    const spoil = fc.record({ way: fc.constantFrom(...waysOf(object)), value: poison });
    return fc.tuple(fc.constant(object), fc.array(spoil, { maxLength: 3 }));
  });
  fc.assert(
    fc.property(spoilt, ([object, spoils]) => {
      const raw = spoils.reduce<unknown>(
        (all, { way, value }) => poisoned(all, way, value),
        object,
      );
      check(object.kind as Kind, raw);
    }),
    { numRuns: 2_000 },
  );
});

Deno.test("an object that is good is not refused", () => {
  const decode = createDecoder();
  fc.assert(fc.property(cluster, (objects) => {
    for (const object of objects) {
      const decoded = decode(object.kind as Kind, object);
      assert(decoded.type !== "refuse", Deno.inspect(decoded));
    }
  }));
});

Deno.test("what was taken does not change when the raw object does", () => {
  fc.assert(fc.property(cluster, (objects) => {
    for (const object of objects) {
      const raw = structuredClone(object) as Record<string, unknown>;
      const kept = check(object.kind as Kind, raw);
      const before = JSON.stringify(kept);
      scramble(raw);
      assertEquals(JSON.stringify(kept), before);
    }
  }));
});

function scramble(value: Record<string, unknown>): void {
  for (const [key, each] of Object.entries(value)) {
    if (typeof each === "object" && each !== null) scramble(each as Record<string, unknown>);
    delete value[key];
  }
}

const NAMED: ApiObject = { kind: "Service", metadata: { name: "web" } };

Deno.test("an object that contains itself, as YAML can have it, is refused", () => {
  for (const yaml of ["metadata: &a\n  name: *a\n", "metadata: {name: web}\nspec: &a [*a]\n"]) {
    const decoded = createDecoder()("Service", parseYaml(yaml));
    assertEquals(decoded.type, "refuse");
  }
});

Deno.test("an object that is nested very deeply is refused", () => {
  const depth = 100_000;
  const nest = JSON.parse("[".repeat(depth) + "]".repeat(depth));
  for (const raw of [{ metadata: { name: nest } }, { ...NAMED, spec: nest }]) {
    assertEquals(createDecoder()("Service", raw).type, "refuse");
    check("Service", raw);
  }
});

Deno.test("keys that mean something to JavaScript mean nothing to the decoder", () => {
  const raw = JSON.parse(
    '{"metadata":{"name":"web","labels":{"__proto__":{"service.kubernetes.io/service-proxy-name":"x"}}},' +
      '"spec":{"clusterIP":"10.96.0.1","ports":[{"port":80}],"__proto__":{"type":"ExternalName"}}}',
  );
  assertEquals(check("Service", raw)?.clusterIPs, ["10.96.0.1"]);
  assertEquals(Object.keys({}), []);
});
