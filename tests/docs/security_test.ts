/** docs/security.md and docs/faults.md name the tests of each line. */
import { assert, assertEquals } from "@std/assert";
import { exists, read } from "./checkout.ts";

function testsIn(text: string): string[] {
  return [...text.matchAll(/`(tests\/[^`]+)`/g)].map(([, path = ""]) => path);
}

/** The page, the heading before its lines, and their least number. */
for (
  const [page, heading, least] of [
    ["docs/security.md", "## Bounds", 30],
    ["docs/faults.md", "# Faults", 20],
  ] as const
) {
  Deno.test(`each line of ${page} names its tests`, async () => {
    const [, text = ""] = (await read(page)).split(`${heading}\n`);
    const lines = text.split("\n").filter((line) => line.startsWith("- "));
    assert(lines.length >= least);
    for (const line of lines) assert(testsIn(line).length > 0, line);
  });
}

Deno.test("docs/security.md has at most 1,500 words", async () => {
  assert((await read("docs/security.md")).split(/\s+/).length <= 1_500);
});

for (const page of ["docs/security.md", "docs/faults.md", "README.md", "lib/README.md"]) {
  Deno.test(`the tests that ${page} names are there`, async () => {
    const missing: string[] = [];
    for (const path of testsIn(await read(page))) {
      if (!await exists(path)) missing.push(path);
    }
    assertEquals(missing, []);
  });
}
