import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { createHash } from "node:crypto";
import { ObjectCache } from "../../../lib/cache/cache.ts";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import { type Kind, type KindMap, KINDS } from "../../../lib/model/objects.ts";
import { StateError } from "../../../lib/source/saved/check.ts";
import { stateLines, StateReader } from "../../../lib/source/saved/format.ts";
import { cluster } from "../../support/arbitrary.ts";
import { anyState, eventsOf, HEADER, readText, stateOf, textOf } from "./states.ts";

const EXAMPLE = textOf(stateOf({ services: 2, endpoints: 2 }));

/** Replaces the first match, and makes counts and checksum right again, as a forger would. */
function forge(search: string | RegExp, replacement: string): string {
  const lines = EXAMPLE.replace(search, replacement).split("\n").slice(0, -2);
  const count = (kind: Kind) => lines.filter((line) => line.includes(`"kind":"${kind}"`)).length;
  const sha256 = createHash("sha256").update(lines.map((line) => `${line}\n`).join(""));
  const end = Object.fromEntries(KINDS.map((kind) => [kind, count(kind)]));
  return [...lines, JSON.stringify({ end, sha256: sha256.digest("hex") }), ""].join("\n");
}

function objectsOf<K extends Kind>(text: string, kind: K): KindMap[K][] {
  const event = readText(text).events.find((each) => each.kind === kind);
  const objects: ReadonlyMap<string, KindMap[Kind]> = event?.objects ?? new Map();
  return [...objects.values()] as KindMap[K][];
}

function refusal(text: string): string {
  return assertThrows(() => readText(text), StateError).message;
}

Deno.test("a state that is written and read is the same state", () => {
  fc.assert(fc.property(anyState, (objects) => {
    assertEquals(readText(textOf(objects)), {
      written: HEADER.written,
      events: eventsOf(objects),
    });
  }));
});

Deno.test("whatever the decoders of API objects let through comes back from a state file", () => {
  fc.assert(fc.property(cluster, (raw) => {
    const decode = createDecoder();
    const cache = new ObjectCache();
    for (const object of raw) {
      const kind = KINDS.find((each) => each === object["kind"]);
      if (kind === undefined) throw new Error("a kind that the cache does not have");
      const decoded = decode(kind, object);
      if (decoded.type !== "object") continue;
      cache.apply({ ...decoded, type: "upsert", kind } as Parameters<ObjectCache["apply"]>[0]);
    }
    assertEquals(readText(textOf(cache)).events, eventsOf(cache));
  }));
});

Deno.test("text may come in pieces of any size", () => {
  fc.assert(fc.property(anyState, fc.integer({ min: 1, max: 300 }), (objects, size) => {
    const text = textOf(objects);
    const reader = new StateReader(HEADER.nodeName);
    for (let i = 0; i < text.length; i += size) reader.push(text.slice(i, i + size));
    assertEquals(reader.finish().events, eventsOf(objects));
  }));
});

Deno.test("every object has a line of its own", () => {
  const lines = [...stateLines(stateOf({ services: 3 }), HEADER)];
  assertEquals(lines.length, 1 + 6 + 1);
  for (const line of lines) assert(/^\{[^\n]*\}\n$/.test(line), line);
});

Deno.test("the same state gives the same text", () => {
  assertEquals(EXAMPLE, textOf(stateOf({ services: 2, endpoints: 2 })));
});

Deno.test("the objects are those of one moment, though the cache changes meanwhile", () => {
  const objects = stateOf({ services: 2 });
  const services = new Map(objects.services);
  const lines = stateLines({ ...objects, services }, HEADER);
  const first = lines.next().value;
  services.clear();
  assertEquals(readText([first, ...lines].join("")).events, eventsOf(objects));
});

Deno.test("a state without anything can be kept too", () => {
  const nothing = stateOf({ services: 0 });
  assertEquals(readText(textOf(nothing)).events, eventsOf(nothing));
});

Deno.test("empty lists are one list in memory", () => {
  const endpoints = objectsOf(EXAMPLE, "EndpointSlice").flatMap((slice) => slice.endpoints);
  assertEquals(endpoints.length, 4);
  assertEquals(new Set(endpoints.flatMap((e) => [e.zoneHints, e.nodeHints])).size, 1);
});

Deno.test("a change of any character is refused", () => {
  fc.assert(
    fc.property(
      fc.nat(EXAMPLE.length - 1),
      fc.oneof(fc.string({ unit: "binary-ascii", minLength: 1, maxLength: 1 }), fc.constant("")),
      (position, character) => {
        fc.pre(EXAMPLE[position] !== character);
        const damaged = EXAMPLE.slice(0, position) + character + EXAMPLE.slice(position + 1);
        assertThrows(() => readText(damaged), StateError);
      },
    ),
    { numRuns: 2000 },
  );
});

Deno.test("a text that ends anywhere before its end is refused", () => {
  for (let length = 0; length < EXAMPLE.length; length++) {
    assertThrows(() => readText(EXAMPLE.slice(0, length)), StateError);
  }
  assertStringIncludes(refusal(EXAMPLE.slice(0, -1)), "it is truncated");
  assertEquals(refusal(""), "it is empty");
});

Deno.test("lines that are missing, doubled, swapped or added are refused", () => {
  const lines = EXAMPLE.split("\n").slice(0, -1);
  const text = (changed: readonly (string | undefined)[]) => changed.join("\n") + "\n";
  const [header, first, second, ...others] = lines;
  const variants = {
    missing: text([header, first, ...others]),
    doubled: text([header, first, first, second, ...others]),
    swapped: text([header, second, first, ...others]),
    added: EXAMPLE + "{}\n",
    twice: EXAMPLE + EXAMPLE,
    rest: EXAMPLE + "x",
    headerless: text([first, second, ...others]),
    blank: text([header, "", first, second, ...others]),
  };
  for (const variant of Object.values(variants)) {
    assertThrows(() => readText(variant), StateError);
  }
  assertEquals(refusal(variants.headerless), "it is not a state file of signpost");
  assertStringIncludes(refusal(variants.doubled), "line 3 names Service default/web-0 a second");
});

Deno.test("a file that is not ours is called foreign", () => {
  const foreign = "it is not a state file of signpost";
  for (const text of ["hello", "hello\n", "{}\n", "[]\n", "null\n", '{"signpost":1}\n', "\n"]) {
    assertEquals(refusal(text), foreign, text);
  }
});

Deno.test("the state of another node is refused", () => {
  assertEquals(
    refusal(textOf(stateOf({ services: 1 }), { ...HEADER, nodeName: "node-2" })),
    'it is the state of node "node-2", and this is node "node-1"',
  );
});

Deno.test("other versions of the format are refused, newer and older ones", () => {
  assertEquals(
    refusal(forge('"version":1', '"version":2')),
    "it is of format version 2, from a newer signpost; this signpost reads version 1",
  );
  assertEquals(
    refusal(forge('"version":1', '"version":0')),
    "it is of format version 0; this signpost reads version 1",
  );
  assertStringIncludes(refusal(forge('"version":1,', "")), "format version missing");
});

Deno.test("a state from the future is taken: clocks without a battery start in the past", () => {
  const written = Date.UTC(2199, 0, 1);
  const objects = stateOf({ services: 1 });
  assertEquals(readText(textOf(objects, { ...HEADER, written })).written, written);
});

Deno.test("the forger of these tests makes texts that only the checks of the objects can refuse", () => {
  assertEquals(readText(forge("web-0", "web-0")).events.length, 4);
  const [renamed] = objectsOf(forge('"name":"http"', '"name":"https"'), "Service");
  assertEquals(renamed?.ports[0]?.name, "https");
});

const FORGERIES: Readonly<Record<string, readonly [RegExp | string, string]>> = {
  "a port beyond the last": [/"port":80\b/, '"port":70000'],
  "port 0": [/"port":80\b/, '"port":0'],
  "a port as text": [/"port":80\b/, '"port":"80"'],
  "a fraction of a port": [/"port":80\b/, '"port":80.5'],
  "another protocol": [/"protocol":"tcp"/, '"protocol":"icmp"'],
  "no ports": [/"ports":\[\{"name":"http","protocol":"tcp","port":80,[^\]]*\]/, '"ports":[]'],
  "an address that is none": [/"clusterIPs":\["[^"]*"/, '"clusterIPs":["10.96.0.256"'],
  "an address that is not canonical": [/"clusterIPs":\["[^"]*"/, '"clusterIPs":["10.96.00.1"'],
  "an address with an order to nft": [/"clusterIPs":\["[^"]*"/, '"clusterIPs":["10.0.0.1; flush"'],
  "no cluster IP": [/"clusterIPs":\["[^"]*"/, '"clusterIPs":['],
  "two cluster IPs of a family": [/"clusterIPs":\[/, '"clusterIPs":["10.96.9.9",'],
  "an external IP on the loopback": [/"externalIPs":\[/, '"externalIPs":["127.0.0.1"'],
  "an external IP that is there twice": [
    /"externalIPs":\[/,
    '"externalIPs":["10.0.0.1","10.0.0.1"',
  ],
  "a range with host bits": [/"sourceRanges":\[/, '"sourceRanges":["10.0.0.1/8"'],
  "a name with a line break": [/"name":"web-0"/, '"name":"web\\n0"'],
  "a name with a quote": [/"name":"web-0"/, '"name":"web\\"0"'],
  "a namespace in capitals": [/"namespace":"default"/, '"namespace":"Default"'],
  "an unknown policy": [/"internalTrafficPolicy":"Cluster"/, '"internalTrafficPolicy":"local"'],
  "a negative timeout": [/"affinitySeconds":0/, '"affinitySeconds":-1'],
  "a timeout of over a day": [/"affinitySeconds":0/, '"affinitySeconds":86401'],
  "a time beyond all times": [/"created":\d+/, '"created":8640000000000001'],
  "a uid that is no text": [/"uid":"[^"]*"/, '"uid":7'],
  "a field too many": [/"created":/, '"extra":1,"created":'],
  "a field with the name of a method": [/"created":/, '"toString":1,"created":'],
  "a field with the name of the prototype": [/"created":/, '"__proto__":{},"created":'],
  "a field too few": [/"affinitySeconds":0,/, ""],
  "null for a field": [/"affinitySeconds":0/, '"affinitySeconds":null'],
  "an endpoint of the other family": [/"address":"[^"]*"/, '"address":"fd00::1"'],
  "an endpoint on the loopback": [/"address":"[^"]*"/, '"address":"127.0.0.1"'],
  "a family that is none": [/"family":4/, '"family":5'],
  "a condition that is no boolean": [/"ready":true/, '"ready":1'],
  "null for the name of a node": [/"nodeName":"node-0"/, '"nodeName":null'],
  "a hint with a space": [/"zoneHints":\[/, '"zoneHints":["zone a"'],
  "a list that is none": [/"zoneHints":\[\]/, '"zoneHints":{}'],
  "an object that is none": [/"object":\{[^\n]*\}\}/, '"object":[]}'],
  "a kind that is none": [/"kind":"Service"/, '"kind":"Secret"'],
  "a field beside the object": [/"kind":"Service"/, '"kind":"Service","more":1'],
  "the node of another name": [
    '{"kind":"Service"',
    '{"kind":"Node","object":{"name":"node-2","uid":"","addresses":[],"podCIDRs":[],"zone":"",' +
    '"deleting":false}}\n{"kind":"Service"',
  ],
  "a header with more to say": ['"version":1', '"version":1,"more":1'],
  "a time of writing that is none": [/"written":\d+/, '"written":"now"'],
};

for (const [what, [search, replacement]] of Object.entries(FORGERIES)) {
  Deno.test(`refused although the checksum fits: ${what}`, () => {
    const message = refusal(forge(search, replacement));
    assertStringIncludes(message, "it is damaged: line ");
    assert(!message.includes("checksum"), message);
    assert([...message].every((character) => character >= " " && character <= "~"), message);
  });
}

Deno.test("a refusal names the line, the field, the rule and the value", () => {
  assertEquals(
    refusal(forge(/"port":8080\b/, '"port":70000')),
    "it is damaged: line 4 (EndpointSlice): ports[0].port must be a whole number from 1 to 65535, " +
      "is 70000",
  );
});

Deno.test("a line without end is refused before it fills the memory", () => {
  const reader = new StateReader(HEADER.nodeName);
  const piece = "x".repeat(1024 * 1024);
  assertThrows(() => {
    for (let i = 0; i < 64; i++) reader.push(piece);
  }, StateError);
});
