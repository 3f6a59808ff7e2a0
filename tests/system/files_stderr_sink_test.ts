import { assertEquals } from "@std/assert";

const SINK = new URL("../../lib/system/files.ts", import.meta.url).href;

/** Runs a script with the sink imported, its standard error in a file. */
async function run(script: string): Promise<{ code: number; stderr: string; stdout: string }> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/a.ts`, `import * as sink from "${SINK}";\n${script}`);
    const command = new Deno.Command("sh", {
      args: ["-c", `exec "$0" run --no-config -A "$1/a.ts" 2> "$1/err"`, Deno.execPath(), folder],
    });
    const { code, stdout } = await command.output();
    const stderr = await Deno.readTextFile(`${folder}/err`);
    return { code, stderr, stdout: new TextDecoder().decode(stdout) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
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
