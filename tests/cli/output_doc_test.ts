import { assertEquals } from "@std/assert";
import { join } from "node:path/posix";
import { DIFF_VERSION, type DiffReport } from "../../lib/verify/diff_report.ts";

const ROOT = join(dirnameOf(import.meta.url), "../..");
const DOC = await Deno.readTextFile(join(ROOT, "docs/output.md"));

/** All that stands between backquotes in the document, parted where a path or list is. */
const WORDS = new Set(
  [...DOC.matchAll(/`([^`\n]+)`/g)].flatMap(([, text = ""]) => text.split(/[^\w-]+/)),
);

function dirnameOf(url: string): string {
  return new URL(".", url).pathname;
}

function keysOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(keysOf);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysOf(inner)]);
}

async function* sources(folder: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) yield* sources(join(folder, name));
    else yield await Deno.readTextFile(join(folder, name));
  }
}

Deno.test("docs/output.md names every field that explain and diff print", async () => {
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
  const folder = join(ROOT, "tests/testdata/cli");
  const reports = await Promise.all(
    ["explain-service.json", "explain-packet.json"].map(async (file) =>
      JSON.parse(await Deno.readTextFile(join(folder, file))) as unknown
    ),
  );
  const missing = new Set(keysOf([diff, ...reports]).filter((key) => !WORDS.has(key)));
  assertEquals([...missing], []);
});

Deno.test("docs/output.md names every finding of explain", async () => {
  const codes = new Set<string>();
  for await (const text of sources(join(ROOT, "lib/explain"))) {
    for (const [, code = ""] of text.matchAll(/\b(?:error|warning|note)\)?\(\s*"([a-z-]+)"/g)) {
      codes.add(code);
    }
  }
  assertEquals(codes.size > 25, true, `${codes.size}`);
  assertEquals([...codes].filter((code) => !WORDS.has(code)), []);
});
