import { assertEquals, assertThrows } from "@std/assert";
import { ManifestError, parseManifest } from "../../lib/source/manifests.ts";
import { createDecoder } from "../../lib/source/objects/decode.ts";
import { fakeDecode } from "./api/fakes.ts";

const SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
const SLICE = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a-1}\n";

const OPTIONS = { file: "f.yaml", decode: fakeDecode, nodeName: "node-1" };

function parse(text: string) {
  return parseManifest(text, OPTIONS).objects;
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

Deno.test("objects of other kinds are left out by name", () => {
  const text = `apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: k}\n---\n` +
    `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\n${SERVICE}`;
  assertEquals(keys(text), ["Service default/a"]);
  assertEquals(parseManifest(text, OPTIONS).leftOut, [
    "Service of serving.knative.dev/v1",
    "Deployment",
  ]);
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
  const options = { file: "f", nodeName: "", decode: createDecoder() };
  const { objects: [change] } = parseManifest(text, options);
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
  ["a text", "hello\n", /^f\.yaml: document 1: is not an API object/],
  [
    "a document without a kind",
    `${SERVICE}---\n\nmetadata: {}\n`,
    /^f\.yaml: document 2: is not an API object/,
  ],
  [
    "an item without a kind",
    "kind: List\nitems:\n- metadata: {}\n",
    /^f\.yaml: document 1: items\[0\]: is not an API/,
  ],
];

for (const [what, text, message] of BROKEN) {
  Deno.test(`${what} is one error with its place`, () => {
    const error = assertThrows(() => parse(text), ManifestError);
    assertEquals(message.test(error.message), true, error.message);
    assertEquals(error.message.includes("\n"), false);
  });
}

Deno.test("slices of another version are left out with the reason", () => {
  const beta = SLICE.replace("discovery.k8s.io/v1", "discovery.k8s.io/v1beta1");
  assertEquals(parseManifest(`${beta}---\n${SLICE}`, OPTIONS).leftOut, [
    "EndpointSlice of discovery.k8s.io/v1beta1",
    "EndpointSlice without the label kubernetes.io/service-name",
  ]);
});

Deno.test("a refused object has the line of its document", () => {
  const decode = createDecoder();
  const bad = `${SERVICE}spec: {clusterIP: 10.96.0.10, ports: [{port: 0}]}\n`;
  const refusals = (text: string) =>
    parseManifest(text, { ...OPTIONS, decode }).objects
      .map((change) =>
        change.type === "refuse" ? change.reason.replace(/^.*\]; /, "") : change.type
      );
  const reason = "spec.ports[0].port must be a number from 1 to 65535, is 0";
  assertEquals(refusals(`# a\n---\n${bad}---\n---\n\n# b\n${bad}`), [
    `${reason} (f.yaml:3)`,
    `${reason} (f.yaml:11)`,
  ]);
});
