/**
 * docs/output.md, the examples and the schema in docs/data describe what the commands print as JSON.
 */
import { assert, assertEquals } from "@std/assert";
import { topTable } from "../../lib/cli/top.ts";
import { readConnections, readStatus } from "../../lib/cli/client.ts";
import { type CheckReport, checkTable } from "../../lib/cli/check.ts";
import { verificationTable } from "../../lib/cli/verify.ts";
import type { Status } from "../../lib/model/status.ts";
import type { Verification } from "../../lib/model/kernel/differences.ts";
import { outputSchema, type Schema, schemaText } from "../../tools/schema.ts";
import { DIFF_VERSION, type DiffReport } from "../../lib/cli/diff.ts";

const ROOT = new URL("../../", import.meta.url);
const TEXT = Deno.readTextFileSync(new URL("docs/output.md", ROOT));

/** The examples, by document. */
const EXAMPLES: Readonly<Record<string, unknown>> = JSON.parse(
  Deno.readTextFileSync(new URL("docs/data/output.jsonc", ROOT)).replace(/(?:^| )\/\/ .*$/gm, ""),
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

Deno.test("the schema is that of the types", async () => {
  const schema = await outputSchema();
  const file = await Deno.readTextFile(new URL("docs/data/output.schema.json", ROOT));
  assertEquals(file, schemaText(schema), "run deno task schema");
  const defs = schema.$defs ?? {};
  for (const [name, example] of Object.entries(EXAMPLES)) {
    assertEquals(faultsOf(example, defs[name] ?? { const: "a document" }, defs), [], name);
  }
  for (const kind of ["Service", "Packet"]) {
    const path = new URL(`tests/testdata/cli/explain-${kind.toLowerCase()}.json`, ROOT);
    const report = JSON.parse(await Deno.readTextFile(path));
    assertEquals(faultsOf(report, defs[`explain${kind}`] ?? {}, defs), [], kind);
  }
});

function keysOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(keysOf);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysOf(inner)]);
}

/** Returns the paths of the modules below a folder. */
function modulesBelow(folder: URL): URL[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) =>
    isDirectory ? modulesBelow(new URL(`${name}/`, folder)) : [new URL(name, folder)]
  );
}

Deno.test("the example of a status is one that the client reads", () => {
  const example = EXAMPLES["status"];
  assertEquals(readStatus(example), example);
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

Deno.test("the example of connections is one that the client reads and prints", () => {
  const example = readConnections(EXAMPLES["top"]);
  assertEquals(
    topTable(example, (words) => words),
    `317 new connections a second, over the last 1.0 s; 185,181 in all on n1; 40 a second rejected

PER SECOND   IN ALL  FRONTEND   PORT    SERVICE
       313  184,203  clusterIP  80/tcp  shop/web

REJECTED  IN ALL  FRONTEND   PORT    WHY                     SERVICE
      40   1,200  clusterIP  80/tcp  rejected: no endpoints  shop/closed
`,
  );
});

Deno.test("the example of a check prints as a table", () => {
  const example = EXAMPLES["check"] as CheckReport;
  assertEquals(
    checkTable(example, (words) => words),
    `signpost check on master-1: 1 warning; 1 Service refused, 2 conflicts: signpost status
  mode        nftables (nft 1.0.6), kernel 6.18.44
  API server  not asked, objects come from manifests
  daemon      does not run
  objects     checked

warning Node master-1 has 192.168.77.3; no interface here has it [node-address-elsewhere]
  ${example.findings[0]?.remedy}
`,
  );
});

Deno.test("the example of a verification prints as a table", () => {
  const example = EXAMPLES["verify"] as Verification;
  assertEquals(
    verificationTable(example, { paint: (words) => words, parts: "elements and rules" }),
    `nftables on n1: 3 services with 3 ports, 88 elements and rules
1 difference

services4
  missing  10.96.0.10 . tcp . 80 : goto cluster4-tcp-2  shop/web:http

the daemon has made a full sync (35 operations in 19 ms); the kernel now has the desired rules
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
  const reports = await Promise.all(
    ["service", "packet"].map(async (kind): Promise<unknown> =>
      JSON.parse(await Deno.readTextFile(new URL(`tests/testdata/cli/explain-${kind}.json`, ROOT)))
    ),
  );
  const shown = new Set(keysOf(EXAMPLES));
  assertEquals(keysOf([diff, ...reports]).filter((key) => !shown.has(key)), []);
});

Deno.test("docs/output.md names every finding of explain", () => {
  const words = new Set([...TEXT.matchAll(/`([a-z-]+)`/g)].map(([, word]) => word));
  const codes = modulesBelow(new URL("lib/explain/", ROOT)).flatMap((module) =>
    [
      ...Deno.readTextFileSync(module).matchAll(/\b(?:error|warning|note)\)?\(\s*"([a-z-]+)"/g),
    ].map(([, code = ""]) => code)
  );
  assert(codes.length > 25);
  assertEquals(codes.filter((code) => !words.has(code)), []);
});
