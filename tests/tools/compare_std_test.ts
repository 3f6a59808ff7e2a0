import { assertEquals } from "@std/assert";
import { execute } from "../support/command.ts";

const SOURCE = `// Copyright
import { assert } from "@std/assert/assert";
import { write } from "./_write.ts";
/** An option. */
export interface Options { readonly indent?: number }
export function stringify(value: unknown, options: Options = {}): string {
  assert(value);
  return write(value as string, options.indent ?? 2);
}
`;

const MADE = `import { assert } from "../assert/assert.js";
import { write } from "./_write.js";
export function stringify(value, options = {}) {
    assert(value);
    return write(value, options.indent ?? 2);
}
`;

Deno.test("deno-std is compared without types and formatting", async () => {
  const folder = await Deno.makeTempDir({ prefix: "signpost-std-" });
  const files = {
    "made/yaml/same.js": MADE,
    "made/yaml/code.js": MADE.replace("?? 2", "?? 4"),
    "made/yaml/deep/import.js": MADE.replace("./_write.js", "./_send.js"),
    "made/yaml/more.js": "export {};\n",
    "std/yaml/same.ts": SOURCE,
    "std/yaml/code.ts": SOURCE,
    "std/yaml/deep/import.ts": SOURCE,
  };
  try {
    for (const [path, text] of Object.entries(files)) {
      await Deno.mkdir(`${folder}/${path.replace(/\/[^/]+$/, "")}`, { recursive: true });
      await Deno.writeTextFile(`${folder}/${path}`, text);
    }
    const script = new URL("../../tools/compare_std.sh", import.meta.url).pathname;
    const { code, stdout, stderr } = await execute(
      [script, `${folder}/std`, `${folder}/made`],
      { env: { DENO: Deno.execPath() } },
    );
    assertEquals({ code, stdout, stderr: stderr.replaceAll(`${folder}/`, "") }, {
      code: 1,
      stdout: `1 files are the code of ${folder}/std, 3 are not\n`,
      stderr: ["code", "deep/import", "more"].map((name) =>
        `yaml/${name}.js: differs from std/yaml/${name}.ts\n`
      ).join(""),
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
