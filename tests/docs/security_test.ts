/** docs/security.md and docs/faults.md name the tests of each line. */
import { assert, assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url);

function read(page: string): Promise<string> {
  return Deno.readTextFile(new URL(page, ROOT));
}

function testsIn(text: string): string[] {
  return [...text.matchAll(/`(tests\/[^`]+)`/g)].map(([, path = ""]) => path);
}

for (const [page, least] of [["docs/security.md", 30], ["docs/faults.md", 20]] as const) {
  Deno.test(`each line of ${page} names its tests`, async () => {
    const lines = (await read(page)).split("\n").filter((line) => /^\| (?!Who|Fault)/.test(line));
    assert(lines.length >= least);
    for (const line of lines) {
      const tests = line.split(" | ").at(-1) ?? "";
      assert(testsIn(tests).length > 0 || tests.includes("deno task"), line);
    }
  });
}

Deno.test("docs/security.md has at most 1,500 words", async () => {
  assert((await read("docs/security.md")).split(/\s+/).length <= 1_500);
});

for (const page of ["docs/security.md", "docs/faults.md", "README.md", "lib/README.md"]) {
  Deno.test(`the tests that ${page} names are there`, async () => {
    const missing: string[] = [];
    for (const path of testsIn(await read(page))) {
      if (!await Deno.stat(new URL(path, ROOT)).then(() => true, () => false)) missing.push(path);
    }
    assertEquals(missing, []);
  });
}
