import { assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url);

/** Files and folders of tests that a page names. */
async function namedTests(page: string): Promise<string[]> {
  const text = await Deno.readTextFile(new URL(page, ROOT));
  return [...text.matchAll(/`(tests\/[\w./-]+)`/g)].map(([, path = ""]) => path);
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(new URL(path, ROOT)).then(() => true, () => false);
}

for (const page of ["docs/faults.md", "README.md", "lib/README.md"]) {
  Deno.test(`the tests that ${page} names are there`, async () => {
    const named = await namedTests(page);
    const there = await Promise.all(named.map(exists));
    assertEquals(named.filter((_, i) => !there[i]), []);
  });
}
