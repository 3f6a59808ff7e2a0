import { assertEquals } from "@std/assert";
import { parseHolder } from "../../lib/system/node_lock.ts";
import { run } from "../support/command.ts";
import { runWithFewDescriptors } from "../support/few_descriptors.ts";

Deno.test("what a holder says of itself is checked before it is shown", () => {
  const good = { pid: 1, version: "0.1.0-rc.1+a", since: "2026-01-02T03:04:05.000Z" };
  assertEquals(parseHolder(JSON.stringify(good) + "\n"), good);
  const bad: readonly unknown[] = [
    { ...good, pid: "1" },
    { ...good, version: "\u001b[2J" },
    { ...good, since: "now\nERROR" },
    {},
    null,
    7,
  ];
  for (const each of bad) assertEquals(parseHolder(JSON.stringify(each)), undefined);
  assertEquals(parseHolder("hello"), undefined);
  assertEquals(parseHolder(""), undefined);
});

Deno.test("without free descriptors the lock is held, and its holder says so when there are some", async () => {
  const module = new URL("../../lib/system/node_lock.ts", import.meta.url).href;
  const script = `
    import { AbstractSocketLock } from "${module}";
    Deno.addSignalListener("SIGTERM", () => {});
    const lock = new AbstractSocketLock();
    const self = { pid: 7, version: "0.1.0", since: "2026-01-02T03:04:05.000Z" };
    await lock.take(self);
    const held = [];
    try { for (;;) held.push(Deno.openSync("/dev/null")); } catch { /* none is left */ }
    held.pop().close();
    const conn = await Deno.connect({ transport: "unix", path: "\\0signpost" });
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (const file of held) file.close();
    const buffer = new Uint8Array(999);
    const read = await conn.read(buffer);
    console.log(JSON.parse(new TextDecoder().decode(buffer.subarray(0, read))).pid);
    Deno.exit();
  `;
  const { stdout, stderr } = await runWithFewDescriptors(script, "unshare -n");
  assertEquals(stdout, "7\n", stderr);
});

Deno.test("who waits for the lock stops waiting when it is told to", async () => {
  const module = new URL("../../lib/system/node_lock.ts", import.meta.url).href;
  const script = `
    import { AbstractSocketLock } from "${module}";
    const self = { pid: 7, version: "0.1.0", since: "2026-01-02T03:04:05.000Z" };
    const first = new AbstractSocketLock();
    await first.take(self);
    const refusal = await new AbstractSocketLock().take(self);
    const set = globalThis.setTimeout;
    globalThis.setTimeout = (callback, milliseconds) => {
      console.log("it sleeps", milliseconds);
      return set(callback, milliseconds);
    };
    const stop = new AbortController();
    const waiting = refusal.released(stop.signal);
    stop.abort();
    await waiting;
    await refusal.released(stop.signal);
    console.log("stopped");
    Deno.exit();
  `;
  const command = [
    "unshare",
    "-n",
    Deno.execPath(),
    "run",
    "-qA",
    "--unstable-net",
    "--ext=js",
    "-",
  ];
  assertEquals(await run(command, { stdin: script }), "stopped\n");
});
