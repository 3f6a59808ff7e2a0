import { assertEquals } from "@std/assert";
import { signpostCommand } from "../support/signpost.ts";

Deno.test("a reader that has seen enough of the output is no error", async () => {
  const [program = "", ...args] = signpostCommand();
  const child = new Deno.Command(program, {
    args: [...args, "--help"],
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  await child.stdout.cancel();
  const [{ code }, stderr] = await Promise.all([child.status, new Response(child.stderr).text()]);
  assertEquals(code, 0);
  assertEquals(stderr.split("\n").filter((line) => !/Warning|^$/.test(line)), []);
});
