import { assertEquals } from "@std/assert";
import { completionScript } from "../../lib/cli/completions/command.ts";
import { run } from "../support/command.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** What Deno's QuickJS engine has, and without what it may have in part. */
const STUB = `for (const name of Object.getOwnPropertyNames(Intl)) delete Intl[name];
Object.defineProperty(Intl, "Segmenter", {
  value: class { segment(text) { return text; } },
  configurable: true,
});
Number.prototype.toLocaleString = () => { throw new Error("toLocaleString"); };`;

/** What signpost prints on an engine whose `Intl.Segmenter` is a stub. */
async function withStub(...argv: readonly string[]): Promise<string> {
  const preload = `data:text/javascript,${encodeURIComponent(STUB)}`;
  return await run([
    ...[Deno.execPath(), "run", "-qA", `--config=${ROOT}deno.json`, `--preload=${preload}`],
    ...[`${ROOT}main.ts`, ...argv],
  ]);
}

Deno.test("completions come where Intl.Segmenter is a stub", async () => {
  assertEquals(
    await withStub("completions", "fish", "--", "cleanup", "--logging-format=x", "--v=x", "--dry"),
    "--dry-run\tPrint what would be removed; touch nothing.",
  );
});

Deno.test("an Intl.Segmenter that works stays as it is", () => {
  const { Segmenter } = Intl;
  completionScript("bash");
  assertEquals([Intl.Segmenter === Segmenter, /native code/.test(`${Segmenter}`)], [true, true]);
});
