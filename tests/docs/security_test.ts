/**
 * docs/security.md names the tests that hold each of its lines.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url);
const TEXT = await Deno.readTextFile(new URL("docs/security.md", ROOT));

/** The rows of all tables, without their heads. */
const ROWS = TEXT.split("\n").filter((line) =>
  line.startsWith("| ") && !line.startsWith("| They try")
);

function testsIn(text: string): string[] {
  return [...text.matchAll(/`(tests\/[^`]+)`/g)].map(([, path = ""]) => path);
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(new URL(path, ROOT)).then(({ isFile }) => isFile, () => false);
}

Deno.test("each line about security names its tests, behind what signpost and kube-proxy do", () => {
  assert(ROWS.length > 20);
  for (const row of ROWS) {
    const cells = row.split(" | ");
    assertEquals(cells.length, 4, row);
    assert(testsIn(cells[3] ?? "").length > 0, row);
  }
});

Deno.test("the tests that docs/security.md names are there", async () => {
  const paths = [...new Set(testsIn(TEXT))];
  const missing = await Promise.all(
    paths.map(async (path) => await exists(path) ? [] : [path]),
  );
  assertEquals(missing.flat(), []);
});
