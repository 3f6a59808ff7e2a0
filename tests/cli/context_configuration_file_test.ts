import { assertEquals } from "@std/assert";
import { ConfigurationFile } from "../../lib/cli/context.ts";

/** Looks at a file that holds each of these texts for one look; `undefined` is no file. */
async function changesSeen(
  ...texts: readonly (string | undefined)[]
): Promise<(string | undefined)[]> {
  let now: string | undefined = "first";
  const file = new ConfigurationFile(() =>
    now === undefined ? Promise.reject(new Error("no file")) : Promise.resolve(now)
  );
  await file.read("/x");
  const seen: (string | undefined)[] = [];
  for (const text of texts) {
    now = text;
    if (!await file.hasChanged()) continue;
    seen.push(now);
    await file.read("/x").catch(() => {});
  }
  return seen;
}

Deno.test("a changed file is reported once, when it stays as it is for two looks", async () => {
  assertEquals(await changesSeen("first", "second", "second", "second"), ["second"]);
  assertEquals(await changesSeen("half", "done", "done"), ["done"]);
  assertEquals(await changesSeen("other", "first", "first"), []);
  assertEquals(await changesSeen("a", "a", "b", "b", "a", "a"), ["a", "b", "a"]);
});

Deno.test("a file that goes is reported once", async () => {
  assertEquals(await changesSeen(undefined, "first"), []);
  assertEquals(await changesSeen(undefined, undefined, undefined, "new", "new"), [
    undefined,
    "new",
  ]);
});

Deno.test("without a file there is nothing to look at", async () => {
  const file = new ConfigurationFile(() => Promise.reject(new Error("not asked for")));
  assertEquals(await file.hasChanged(), false);
});
