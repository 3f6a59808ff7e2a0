import { assertEquals } from "@std/assert";
import { compareStd } from "../../tools/compare_std.ts";

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

async function compare(files: Readonly<Record<string, string>>) {
  const folder = await Deno.makeTempDir({ prefix: "signpost-std-" });
  try {
    for (const [path, text] of Object.entries(files)) {
      await Deno.mkdir(`${folder}/${path.replace(/\/[^/]+$/, "")}`, { recursive: true });
      await Deno.writeTextFile(`${folder}/${path}`, text);
    }
    const folders = { made: `${folder}/made`, std: `${folder}/std` };
    const { same, differences } = await compareStd(folders, ["yaml"]);
    return { same, differences: differences.map((line) => line.replaceAll(`${folder}/`, "")) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("a file of deno-std without types and with other formatting is the same code", async () => {
  assertEquals(await compare({ "made/yaml/a.js": MADE, "std/yaml/a.ts": SOURCE }), {
    same: 1,
    differences: [],
  });
});

Deno.test("other code, another import and a file that std does not have are told", async () => {
  assertEquals(
    await compare({
      "made/yaml/code.js": MADE.replace("?? 2", "?? 4"),
      "made/yaml/deep/import.js": MADE.replace("./_write.js", "./_send.js"),
      "made/yaml/more.js": "export {};\n",
      "std/yaml/code.ts": SOURCE,
      "std/yaml/deep/import.ts": SOURCE,
    }),
    {
      same: 0,
      differences: [
        "yaml/code.js: differs from std/yaml/code.ts",
        "yaml/deep/import.js: differs from std/yaml/deep/import.ts",
        "yaml/more.js: there is no std/yaml/more.ts",
      ],
    },
  );
});
