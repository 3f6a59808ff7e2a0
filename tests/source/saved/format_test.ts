import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { ObjectCache } from "../../../lib/cache/cache.ts";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import {
  type Kind,
  type KindMap,
  KINDS,
  type ObjectChange,
  type ObjectEvent,
  type ReplaceEvent,
} from "../../../lib/model/cluster/objects.ts";
import { StateError, stateLines, StateReader } from "../../../lib/source/saved/format.ts";
import { loadManifests } from "../../../lib/source/manifests.ts";
import { cluster } from "../../support/arbitrary.ts";
import { MemoryLogger } from "../../support/clock_and_log.ts";
import { anyState, eventsOf, HEADER, readText, stateOf, textOf, withoutOmitted } from "./states.ts";

const EXAMPLE = textOf(stateOf({ services: 2, endpoints: 2 }));

/** Replaces the first match, as a forger would. */
function forge(search: string | RegExp, replacement: string): string {
  return EXAMPLE.replace(search, replacement);
}

function objectsOf<K extends Kind>(text: string, kind: K): KindMap[K][] {
  const event = readText(text).events.find((each) => each.kind === kind);
  const changes: readonly ObjectChange[] = [...event?.changes.values() ?? []];
  return changes.flatMap((each) => each.type === "upsert" ? [each.object as KindMap[K]] : []);
}

function refusal(text: string): string {
  return assertThrows(() => readText(text), StateError).message;
}

Deno.test("a state that is written and read is the same state", () => {
  fc.assert(fc.property(anyState, (objects) => {
    const { written, events } = readText(textOf(objects));
    assertEquals([written, withoutOmitted(events)], [HEADER.written, eventsOf(objects)]);
  }));
});

Deno.test("whatever the decoders of API objects let through comes back from a state file", () => {
  fc.assert(fc.property(cluster, (raw) => {
    const decode = createDecoder();
    const cache = new ObjectCache();
    for (const each of raw) {
      const kind = KINDS.find((kind) => kind === each["kind"]);
      if (kind === undefined) throw new Error("a kind that the cache does not have");
      const decoded = decode(kind, each);
      if (decoded.type !== "upsert") continue;
      // What is left out of an object is no part of it.
      const { omitted: _, ...object } = decoded.object;
      const upsert = { type: "upsert", kind, key: decoded.key, object };
      cache.apply(upsert as Parameters<ObjectCache["apply"]>[0]);
    }
    assertEquals(withoutOmitted(readText(textOf(cache)).events), eventsOf(cache));
  }));
});

Deno.test("text may come in pieces of any size", () => {
  fc.assert(fc.property(anyState, fc.integer({ min: 1, max: 300 }), (objects, size) => {
    const text = textOf(objects);
    const reader = new StateReader({ nodeName: HEADER.nodeName, decode: createDecoder() });
    for (let i = 0; i < text.length; i += size) reader.push(text.slice(i, i + size));
    assertEquals(withoutOmitted(reader.finish().events), eventsOf(objects));
  }));
});

Deno.test("every object has a line of its own", () => {
  const lines = [...stateLines(stateOf({ services: 3 }), HEADER)];
  assertEquals(lines.length, 1 + 6 + 1);
  for (const line of lines.slice(1, -1)) assert(/^,\{[^\n]*\}\n$/.test(line), line);
});

Deno.test("the text is a List of Kubernetes objects that --manifests takes", async () => {
  await fc.assert(fc.asyncProperty(anyState, async (objects) => {
    const events: ObjectEvent[] = [];
    await loadManifests({
      paths: ["state.json"],
      decode: createDecoder(),
      sink: (event) => void events.push(event),
      nodeName: HEADER.nodeName,
      files: {
        read: () => Promise.resolve(textOf(objects)),
        list: () => Promise.resolve([]),
        stat: () => Promise.resolve({ isDirectory: false, fingerprint: "" }),
      },
      logger: new MemoryLogger(),
    });
    assertEquals(withoutOmitted(events as ReplaceEvent[]), eventsOf(objects));
    assertEquals(JSON.parse(textOf(objects)).kind, "List");
  }));
});

Deno.test("the objects are those of one moment", () => {
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

Deno.test("a text that ends anywhere before its end is refused", () => {
  for (let length = 0; length < EXAMPLE.length; length++) {
    assertThrows(() => readText(EXAMPLE.slice(0, length)), StateError);
  }
  assertStringIncludes(refusal(EXAMPLE.slice(0, -1)), "it is truncated");
  assertEquals(refusal(""), "it is empty");
});

Deno.test("lines that are doubled or added are refused", () => {
  const lines = EXAMPLE.split("\n").slice(0, -1);
  const text = (changed: readonly (string | undefined)[]) => changed.join("\n") + "\n";
  const [list, header, first, second, ...others] = lines;
  const variants = {
    doubled: text([list, header, first, first, second, ...others]),
    added: EXAMPLE + "{}\n",
    twice: EXAMPLE + EXAMPLE,
    rest: EXAMPLE + "x",
    headerless: text([list, first, second, ...others]),
    listless: text([header, first, second, ...others]),
    blank: text([list, header, "", first, second, ...others]),
  };
  for (const variant of Object.values(variants)) assertThrows(() => readText(variant), StateError);
  assertEquals(refusal(variants.headerless), "it is not a state file of signpost");
  assertEquals(refusal(variants.listless), "it is not a state file of signpost");
  assertStringIncludes(refusal(variants.doubled), "line 4 names Service default/web-0 a second");
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

Deno.test("other versions of the format are refused", () => {
  assertEquals(
    refusal(forge('"version":"3"', '"version":"4"')),
    'it is of format version "4", from a newer signpost; this signpost reads version 3',
  );
  assertEquals(refusal(forge('"version":"3",', "")), "it is not a state file of signpost");
});

Deno.test("a state from the future is taken: clocks without a battery start in the past", () => {
  const written = Date.UTC(2199, 0, 1);
  const objects = stateOf({ services: 1 });
  assertEquals(readText(textOf(objects, { ...HEADER, written })).written, written);
});

Deno.test("the forger's texts can be refused only by the checks of the objects", () => {
  assertEquals(readText(forge("web-0", "web-0")).events.length, 4);
  const [renamed] = objectsOf(forge('"name":"http"', '"name":"https"'), "Service");
  assertEquals(renamed?.ports[0]?.name, "https");
});

/** Objects that the decoder refuses of an API server are refused here, too; these are a few of its cases. */
const FORGERIES: Readonly<Record<string, readonly [RegExp | string, string]>> = {
  "no usable port": [/"port":80\b/, '"port":70000'],
  "no usable cluster IP": [/"clusterIPs":\["[^"]*"/, '"clusterIPs":["10.0.0.1; flush ruleset"'],
  "a cluster IP on the loopback": [/"clusterIPs":\["[^"]*"/, '"clusterIPs":["127.0.0.1"'],
  "a name with a line break": [/"name":"web-0"/, '"name":"web\\n0"'],
  "a name with a quote": [/"name":"web-0"/, '"name":"web\\"0"'],
  "a namespace in capitals": [/"namespace":"default"/, '"namespace":"Default"'],
  "an unknown policy": [/"internalTrafficPolicy":"Cluster"/, '"internalTrafficPolicy":"local"'],
  "a uid that is no text": [/"uid":"[^"]*"/, '"uid":7'],
  "a list that is none": [/"endpoints":\[[^\n]*\]/, '"endpoints":{}'],
  "an address type that is none": [/"addressType":"IPv4"/, '"addressType":"IPv5"'],
  "a Service that makes no rules": [/"clusterIP":"[^"]*"/, '"clusterIP":"None"'],
  "a kind that is none": [/"kind":"Service"/, '"kind":"Secret"'],
  "a version that is none": [
    /"apiVersion":"v1","kind":"Service"/,
    '"apiVersion":"v2","kind":"Service"',
  ],
  "a line without its comma": [/,(\{"apiVersion":"v1","kind":"Service")/, "$1"],
  "the node of another name": [
    ',{"apiVersion":"v1","kind":"Service"',
    ',{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-2"}}\n' +
    ',{"apiVersion":"v1","kind":"Service"',
  ],
  "a header with more to say": ['"version":"3"', '"version":"3","more":"1"'],
  "a time of writing that is none": [/"written":"[^"]*"/, '"written":"now"'],
};

for (const [what, [search, replacement]] of Object.entries(FORGERIES)) {
  Deno.test(`a state with this change is refused: ${what}`, () => {
    const message = refusal(forge(search, replacement));
    assertStringIncludes(message, "it is damaged: line ");
    assert([...message].every((character) => character >= " " && character <= "~"), message);
  });
}

Deno.test("a refusal names the line, the field, the rule and the value", () => {
  assertEquals(
    refusal(forge(/"addressType":"IPv4"/, '"addressType":"IPv5"')),
    "it is damaged: line 5 (EndpointSlice): addressType must be IPv4 or IPv6 or FQDN, " +
      'is "IPv5"',
  );
});
