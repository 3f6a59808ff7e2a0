/**
 * docs/output.md, the examples and the schema in docs/data describe what the commands print as JSON.
 */
import { assert, assertEquals } from "@std/assert";
import { readConnections, readStatus } from "../../lib/cli/client.ts";
import { type CheckReport, checkTable } from "../../lib/cli/check.ts";
import type { Status } from "../../lib/model/status.ts";
import { outputSchema, type Schema, schemaText } from "../../tools/schema.ts";
import { DIFF_VERSION, type DiffReport } from "../../lib/cli/diff.ts";
import { filesBelow, read } from "./checkout.ts";

const TEXT = await read("docs/output.md");

/** The examples, by document. */
const EXAMPLES: Readonly<Record<string, unknown>> = JSON.parse(
  (await read("docs/data/output.jsonc")).replace(/(?:^| )\/\/ .*$/gm, ""),
);

/** Returns where a value breaks a schema. */
function faultsOf(
  value: unknown,
  schema: Schema,
  defs: Readonly<Record<string, Schema>>,
): string[] {
  const { $ref, anyOf, items, properties = {}, required = [], type } = schema;
  if ($ref !== undefined) return faultsOf(value, defs[$ref.replace("#/$defs/", "")] ?? {}, defs);
  if (anyOf !== undefined) {
    const faults = anyOf.map((each) => faultsOf(value, each, defs));
    return faults.some(({ length }) => length === 0) ? [] : faults.at(0) ?? [];
  }
  if ("const" in schema) return value === schema.const ? [] : [`${value} is not ${schema.const}`];
  const actual = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  if (type !== undefined && actual !== type) return [`${JSON.stringify(value)} is not ${type}`];
  if (Array.isArray(value)) return value.flatMap((each) => faultsOf(each, items ?? {}, defs));
  if (value === null || typeof value !== "object") return [];
  const entries = Object.entries(value);
  const missing = required.filter((name) => !(name in value)).map((name) => `${name} is missing`);
  return missing.concat(entries.flatMap(([name, each]) => {
    const property = properties[name];
    if (property === undefined) {
      return Object.keys(properties).length === 0 ? [] : [`${name} has no type`];
    }
    return faultsOf(each, property, defs).map((fault) => `${name}: ${fault}`);
  }));
}

async function explanationOf(kind: string): Promise<unknown> {
  return JSON.parse(await read(`tests/testdata/cli/explain-${kind}.json`));
}

Deno.test("the schema is that of the types", async () => {
  const schema = await outputSchema();
  const file = await read("docs/data/output.schema.json");
  assertEquals(file, schemaText(schema), "run deno task schema");
  const defs = schema.$defs ?? {};
  for (const [name, example] of Object.entries(EXAMPLES)) {
    assertEquals(faultsOf(example, defs[name] ?? { const: "a document" }, defs), [], name);
  }
  for (const kind of ["Service", "Packet"]) {
    const report = await explanationOf(kind.toLowerCase());
    assertEquals(faultsOf(report, defs[`explain${kind}`] ?? {}, defs), [], kind);
  }
});

function keysOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(keysOf);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysOf(inner)]);
}

Deno.test("the examples of a status and of connections are ones that the client reads", () => {
  const { status, top } = EXAMPLES;
  assertEquals([readStatus(status), readConnections(top)] as unknown[], [status, top]);
});

type OptionalOf<T> = { [K in keyof T]-?: Pick<T, K> extends Required<Pick<T, K>> ? never : K }[
  keyof T
];

/** A new optional field without an entry does not compile. */
const SOMETIMES: Readonly<Record<OptionalOf<Status>, boolean>> = {
  portions: true,
  localhostNodePorts: true,
  acceleration: true,
  takeOver: true,
  refusedByKind: true,
  refusedFeatures: true,
  // Only for explain, which asks about one Service.
};

Deno.test("docs/output.md names the fields that a status has sometimes", () => {
  const named = Object.entries(SOMETIMES).filter(([, isPrinted]) => isPrinted);
  assertEquals(named.filter(([name]) => !TEXT.includes(`- \`${name}\`: `)), []);
});

Deno.test("the example of a check prints as a table", () => {
  const example = EXAMPLES["check"] as CheckReport;
  assertEquals(
    checkTable(example, (words) => words),
    `signpost check on master-1: 1 warning; 1 Service refused, 2 conflicts: signpost status
  mode        nftables (nft 1.0.6), kernel 6.18.44
  API server  not asked, objects come from manifests
  daemon      does not answer for this node
  objects     checked

warning Node master-1 has 192.168.77.3; no interface here has it [node-address-elsewhere]
  ${example.findings[0]?.remedy}
`,
  );
});

Deno.test("the examples have every field that explain and diff print", async () => {
  const diff: DiffReport = {
    diffVersion: DIFF_VERSION,
    node: "",
    mode: "nftables",
    against: "api",
    objects: [],
    present: { from: "daemon", asOf: "" },
    changes: [{ change: "add", type: "element", in: "", key: "", data: "", service: "" }],
    warnings: [],
  };
  const reports = await Promise.all(["service", "packet"].map(explanationOf));
  const shown = new Set(keysOf(EXAMPLES));
  assertEquals(keysOf([diff, ...reports]).filter((key) => !shown.has(key)), []);
});

Deno.test("docs/output.md names every finding of explain", async () => {
  const words = new Set([...TEXT.matchAll(/`([a-z-]+)`/g)].map(([, word]) => word));
  const modules = await Promise.all(filesBelow("lib/explain/").map(read));
  const codes = modules.flatMap((module) =>
    [...module.matchAll(/\b(?:error|warning|note)\)?\(\s*"([a-z-]+)"/g)].map(([, code = ""]) =>
      code
    )
  );
  assert(codes.length > 25);
  assertEquals(codes.filter((code) => !words.has(code)), []);
});
