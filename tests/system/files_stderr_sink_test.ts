import { assertEquals } from "@std/assert";
import { type CommandResult, execute } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";

const SINK = new URL("../../lib/system/files.ts", import.meta.url).href;

/** Runs a script with the sink imported, its standard error in a file. */
async function run(script: string): Promise<CommandResult> {
  await using folder = await makeFolder("sink");
  const shell = `exec "$0" run --no-config -A - 2> "$1"`;
  const [file, stdin] = [`${folder.path}/err`, `import * as sink from "${SINK}";\n${script}`];
  const result = await execute(["sh", "-c", shell, Deno.execPath(), file], { stdin });
  return { ...result, stderr: await Deno.readTextFile(file) };
}

Deno.test("lines go to standard error, whole", async () => {
  const { code, stderr, stdout } = await run(`
    const write = sink.stderrSink();
    write("ü".repeat(100_000) + "\\n");
    write("end\\n");`);
  assertEquals([code, stderr, stdout], [0, `${"ü".repeat(100_000)}\nend\n`, ""]);
});

Deno.test("a standard error that takes nothing does not end the process", async () => {
  const { code, stdout } = await run(`
    Deno.stderr.close();
    sink.stderrSink()("lost\\n");
    console.log("alive");`);
  assertEquals([code, stdout], [0, "alive\n"]);
});
