import { assertEquals } from "@std/assert";
import { findTestFiles } from "../../tools/test_files.ts";
import { makeFolder } from "../support/folder.ts";

/** Sorts the tests of a project that consists of these files. */
async function sort(files: Readonly<Record<string, string>>) {
  await using root = await makeFolder("test-files");
  for (const folder of ["lib", "tests", "tools", "bench"]) {
    await Deno.mkdir(`${root.path}/${folder}`);
  }
  for (const [path, text] of Object.entries(files)) {
    await Deno.writeTextFile(`${root.path}/${path}`, text);
  }
  return await findTestFiles(`${root.path}/`);
}

Deno.test("a test that starts a program through its imports is not a unit test", async () => {
  assertEquals(
    await sort({
      "lib/process.ts": "new Deno.Command('nft');",
      "tests/run.ts": 'export * from "../lib/process.ts";',
      "tests/a_test.ts": 'import {\n  run,\n} from "./run.ts";',
      "tests/b_test.ts": 'await import("./run.ts");',
      "tests/c_test.ts": 'import "../lib/process.ts";',
      "tests/d_test.ts": 'Deno.dlopen("libc.so.6", {});',
      "tests/e_test.ts": 'Deno.readTextFileSync("/proc/self/maps");',
    }),
    { unit: [], system: ["a", "b", "c", "d", "e"].map((name) => `tests/${name}_test.ts`) },
  );
});

Deno.test("a test that imports the types alone of what starts programs is a unit test", async () => {
  assertEquals(
    await sort({
      "lib/process.ts": "new Deno.Command('nft');",
      "lib/cycle.ts": 'import "./cycle.ts";',
      "tests/a_test.ts": 'import type { Process } from "../lib/process.ts";',
      "tests/b_test.ts": 'import { assertEquals } from "@std/assert";\nimport "../lib/cycle.ts";',
    }),
    { unit: ["tests/a_test.ts", "tests/b_test.ts"], system: [] },
  );
});
