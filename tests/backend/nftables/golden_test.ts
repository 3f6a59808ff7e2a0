/**
 * The scripts of the golden cases. After a change that is meant:
 *
 * ```
 * UPDATE_GOLDEN=1 deno test -A tests/backend/nftables/golden_test.ts
 * ```
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type { ProcessInput } from "../../../lib/model/ports/ports.ts";
import { execute, wholeInput } from "../../support/command.ts";
import { Libc } from "../../support/libc.ts";
import { Namespaces } from "../../support/namespaces.ts";
import { FOLDER, readCases, runCase, SILENT_RUNNER } from "./golden.ts";

const CASES = readCases();
const UPDATE = Deno.env.get("UPDATE_GOLDEN") === "1";

for (const golden of CASES) {
  Deno.test(`golden scripts, ${golden.name}: ${golden.description}`, async () => {
    for await (const { file, description, text } of runCase(golden, SILENT_RUNNER)) {
      const path = new URL(file, FOLDER);
      if (UPDATE) await Deno.writeTextFile(path, text);
      assertEquals(text, await Deno.readTextFile(path), `${file}: ${description}`);
    }
  });
}

Deno.test("every golden script belongs to a case", async () => {
  const known = new Set<string>();
  for (const golden of CASES) {
    for await (const { file } of runCase(golden, SILENT_RUNNER)) known.add(file);
  }
  const files = [...Deno.readDirSync(FOLDER)].map(({ name }) => name);
  assertEquals(files.filter((name) => name.endsWith(".nft") && !known.has(name)), []);
});

Deno.test("the kernel takes every golden script, one step after the other", async (t) => {
  using libc = new Libc();
  await using namespaces = await Namespaces.create(libc, ["kernel"]);
  const prefix = ["ip", "netns", "exec", namespaces.fullName("kernel")];
  const nft = (argv: readonly string[], stdin?: string) =>
    execute([...prefix, ...argv], stdin === undefined ? {} : { stdin });
  for (const golden of CASES) {
    await t.step(golden.name, async () => {
      let applied = "";
      const runner = {
        run: async (argv: readonly string[], stdin?: ProcessInput) => {
          if (stdin === undefined) return await nft(argv);
          const text = wholeInput(stdin);
          const result = await nft(argv, text);
          assertEquals(result.stderr, "", text);
          applied += text;
          return result;
        },
      };
      for await (const { text } of runCase(golden, runner)) {
        assertEquals(applied, text);
        applied = "";
      }
      await nft(["nft", "flush", "ruleset"]);
    });
  }
});
