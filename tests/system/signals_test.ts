import { assertEquals } from "@std/assert";

Deno.test("a SIGHUP between two daemons of one process does not end it", async () => {
  const module = new URL("../../lib/system/signals.ts", import.meta.url).href;
  const script = `
    import { onReload } from "${module}";
    onReload(() => Promise.resolve())();
    Deno.kill(Deno.pid, "SIGHUP");
    const reloaded = new Promise((resolve) => onReload(() => Promise.resolve(resolve())));
    Deno.kill(Deno.pid, "SIGHUP");
    await reloaded;
    console.log("reloaded");
    Deno.exit();
  `;
  const folder = await Deno.makeTempDir({ prefix: "signpost-signals-" });
  try {
    await Deno.writeTextFile(`${folder}/main.ts`, script);
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-qA", "--no-config", `${folder}/main.ts`],
      stdout: "piped",
      stderr: "piped",
    }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    assertEquals(text(stdout), "reloaded\n", text(stderr));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
