import { assertEquals, assertThrows } from "@std/assert";
import { ManifestError, parseManifest } from "../../../lib/source/manifests.ts";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import { MemoryLogger } from "../../support/clock_and_log.ts";
import { fakeDecode } from "../api/fakes.ts";

const SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
const SLICE = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a-1}\n";

function parse(text: string, logger = new MemoryLogger()) {
  return parseManifest(text, { file: "f.yaml", decode: fakeDecode, nodeName: "node-1", logger });
}

function keys(text: string): string[] {
  return parse(text).map(({ kind, key }) => `${kind} ${key}`);
}

Deno.test("documents of a YAML file come in their order, in namespace default", () => {
  assertEquals(keys(`# two\n---\n${SERVICE}---\n# nothing\n---\n${SLICE}---\n`), [
    "Service default/a",
    "EndpointSlice default/a-1",
  ]);
});

Deno.test("a tab as indentation is refused with its line", () => {
  const text = `${SERVICE}spec:\n\tclusterIP: 10.96.0.10\n`;
  assertThrows(() => parse(text), ManifestError, "f.yaml:5: a tab is not valid as indentation");
});

Deno.test("JSON is read, and lists give their kind to their items", () => {
  const items = [{ metadata: { name: "a", namespace: "x" } }];
  assertEquals(keys(JSON.stringify({ apiVersion: "v1", kind: "ServiceList", items })), [
    "Service x/a",
  ]);
  const list = JSON.stringify({
    apiVersion: "v1",
    kind: "List",
    items: [{ apiVersion: "v1", kind: "Service", ...items[0] }],
  });
  assertEquals(keys(list), ["Service x/a"]);
  assertEquals(keys(`${list}\n---\n${SERVICE}`).length, 2);
  assertEquals(keys(`{"apiVersion":"v1","kind":"List","items":[${list}]}`), ["Service x/a"]);
});

Deno.test("objects of other kinds, and kinds of other groups, are left out by name", () => {
  const text = `apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: k}\n---\n` +
    `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\n${SERVICE}`;
  assertEquals(keys(text), ["Service default/a"]);
  const logger = new MemoryLogger();
  parse(text, logger);
  const leftOut = logger.entries.map(({ fields }) => fields["object"]);
  assertEquals(leftOut, ["Service k", "Deployment d"]);
});

Deno.test("of Nodes only this one is taken", () => {
  const nodes = ["node-1", "node-2"].map((name) =>
    `apiVersion: v1\nkind: Node\nmetadata: {name: ${name}}\n`
  );
  assertEquals(keys(nodes.join("---\n")), ["Node node-1"]);
});

Deno.test("dates of YAML are those that JSON has as text", () => {
  const text = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n" +
    "  creationTimestamp: 2024-05-01T10:00:00Z\n" +
    "spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n";
  const logger = new MemoryLogger();
  const options = { file: "f", nodeName: "", decode: createDecoder(), logger };
  const [change] = parseManifest(text, options);
  assertEquals(
    change?.type === "upsert" && change.kind === "Service" && change.object.created,
    Date.UTC(2024, 4, 1, 10),
  );
});

const BROKEN: readonly (readonly [string, string, RegExp])[] = [
  [
    "a bad YAML document",
    `${SERVICE}---\nkind: Service\nmetadata: {name: [b\n`,
    /^f\.yaml:[78]: \S/,
  ],
  ["broken JSON", '{"kind": "Service",\n "metadata": {"name" "b"}}', /^f\.yaml:2: \S/],
  ["a text", "hello\n", /^f\.yaml: document 1: no API object/],
  [
    "a document without a kind",
    `${SERVICE}---\n\nmetadata: {}\n`,
    /^f\.yaml: document 2: no API object/,
  ],
  [
    "an item without a kind",
    "kind: List\nitems:\n- metadata: {}\n",
    /^f\.yaml: document 1: items\[0\]: no API/,
  ],
];

for (const [what, text, message] of BROKEN) {
  Deno.test(`${what} is one error with its place`, () => {
    const error = assertThrows(() => parse(text), ManifestError);
    assertEquals(message.test(error.message), true, error.message);
    assertEquals(error.message.includes("\n"), false);
  });
}
