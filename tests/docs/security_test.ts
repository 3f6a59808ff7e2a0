/**
 * tests/README.md names the tests of each line of docs/security.md.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url);

/** Rows of all tables without their heads, as cells. */
async function rowsOf(page: string): Promise<string[][]> {
  const text = await Deno.readTextFile(new URL(page, ROOT));
  return text.split("\n")
    .filter((line) => /^\| (?!They try|Fault|Line)/.test(line))
    .map((line) => line.slice(2, -2).split(" | "));
}

function testsIn(text: string): string[] {
  return [...text.matchAll(/`(tests\/[^`]+)`/g)].map(([, path = ""]) => path);
}

Deno.test("each line of docs/security.md has its tests in tests/README.md", async () => {
  const lines = await rowsOf("docs/security.md");
  const guarantees = await rowsOf("tests/README.md");
  assert(lines.length > 60);
  assertEquals(guarantees.map(([line]) => line), lines.map(([line]) => line));
  for (const [line, tests = ""] of guarantees) {
    assert(testsIn(tests).length > 0 || tests.includes("deno task"), line);
  }
});

for (const page of ["tests/README.md", "README.md", "lib/README.md"]) {
  Deno.test(`the tests that ${page} names are there`, async () => {
    const text = await Deno.readTextFile(new URL(page, ROOT));
    const missing: string[] = [];
    for (const path of testsIn(text)) {
      if (!await Deno.stat(new URL(path, ROOT)).then(() => true, () => false)) missing.push(path);
    }
    assertEquals(missing, []);
  });
}
