import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { run } from "./command.ts";
import { Network } from "./network.ts";
import { Signpost, signpostCommand } from "./signpost.ts";

/** Starts a shell in the place of signpost: what the helper does with a process is what counts here. */
async function withProgram(script: string, body: (program: Signpost) => Promise<void>) {
  await using network = await Network.create({ node: ["192.168.0.2"], hosts: {} });
  const command = ["sh", "-c", script, "sh"];
  await using program = Signpost.start(network, ["--flag"], { command });
  await body(program);
}

Deno.test("a daemon runs in the node's namespace, is waited for by its log and stopped", async () => {
  const script = `ip -4 -o addr show dev eth0 >&2; echo "ready $1" >&2; exec sleep 600`;
  await withProgram(script, async (program) => {
    const [, flag] = await program.waitForLog(/ready (\S+)/);
    assertEquals(flag, "--flag");
    assertStringIncludes(program.log, "192.168.0.2");
    assertEquals((await program.stop()).signal, "SIGTERM");
  });
});

Deno.test("a daemon that ends too early fails the wait with its log", async () => {
  await withProgram("echo no nft here >&2; exit 1", async (program) => {
    const error = await assertRejects(() => program.waitForLog(/ready/));
    assertStringIncludes(`${error}`, "no nft here");
  });
});

Deno.test("a failed command's error has its exit code and what it wrote", async () => {
  const error = await assertRejects(() => run(["sh", "-c", "echo broken >&2; exit 3"]));
  assertStringIncludes(`${error}`, "exit 3: broken");
});

Deno.test("SIGNPOST_BIN names a program in the PATH or by a path", () => {
  const before = Deno.env.get("SIGNPOST_BIN");
  const root = new URL("../../", import.meta.url).pathname;
  try {
    for (
      const [name, command] of [
        ["signpost", ["signpost"]],
        ["/opt/deno run  -A main.js", ["/opt/deno", "run", "-A", "main.js"]],
        ["dist/signpost-x86_64-unknown-linux-gnu", [
          `${root}dist/signpost-x86_64-unknown-linux-gnu`,
        ]],
        ["./signpost", [`${root}signpost`]],
      ] as const
    ) {
      Deno.env.set("SIGNPOST_BIN", name);
      assertEquals(signpostCommand(), [...command]);
    }
  } finally {
    if (before === undefined) Deno.env.delete("SIGNPOST_BIN");
    else Deno.env.set("SIGNPOST_BIN", before);
  }
});
