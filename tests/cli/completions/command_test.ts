import { assertEquals } from "@std/assert";
import { completions } from "../../../lib/cli/completions/command.ts";
import { configuration } from "../../support/configuration.ts";
import { world } from "../runtime.ts";

async function printed(
  print: "bash" | "zsh" | "fish" | "services",
  manifests: readonly string[] = [],
): Promise<string> {
  const { runtime, logger, printed } = world();
  const { signpost } = configuration();
  const code = await completions({ name: "completions", print }, {
    configuration: configuration({ signpost: { ...signpost, manifests } }),
    nodeName: "node-1",
    runtime,
    logger,
    signal: new AbortController().signal,
  });
  assertEquals(code, 0);
  return printed.join("");
}

Deno.test("each shell gets a script that says how it was made", async () => {
  for (const shell of ["bash", "zsh", "fish"] as const) {
    const script = await printed(shell);
    assertEquals(script.includes(`made by: signpost completions ${shell}\n`), true);
  }
});

Deno.test("the names of Services are one a line, in order, those with rules alone", async () => {
  const examples = new URL("../../../examples", import.meta.url).pathname;
  const names = (await printed("services", [examples])).trimEnd().split("\n");
  assertEquals(names, [...names].sort());
  assertEquals(names.includes("shop/web"), true);
  assertEquals(names.includes("shop/database"), false, "a headless Service has no rules");
});
