import { assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { askDaemon, serveSocket, type SocketRoutes } from "../../lib/system/socket.ts";
import { STATUS } from "../observe/page/contents.ts";
import { run } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { MemoryLogger, realClock } from "../support/clock_and_log.ts";
import { makeFolder } from "../support/folder.ts";

/** A socket that is served until disposed. */
async function serve(path: string) {
  const before = await inodeOf(path);
  const stop = new AbortController();
  const logger = new MemoryLogger();
  let asked = 0;
  const routes: SocketRoutes = {
    "GET /v1/status": () => STATUS,
    "GET /v1/services": (query) => [`shop/${query.get("name")}`],
    "GET /v1/objects": (query) => {
      const service = query.get("service") ?? "all";
      return service === "none/none" ? undefined : ReadableStream.from(textOf(service));
    },
    "POST /v1/full-sync": async () => {
      await realClock.sleep(1);
      return { asked: ++asked };
    },
  };
  const done = serveSocket({ path, routes, clock: realClock, logger, signal: stop.signal });
  await eventually("the socket", async () => {
    assertNotEquals(await inodeOf(path), before);
    return await askDaemon(path, { method: "GET", path: "/v1/status" });
  });
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await done;
    },
  };
}

async function* textOf(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(text);
}

/** Returns the inode, which tells a socket from an earlier one. */
async function inodeOf(path: string): Promise<number | null | undefined> {
  return (await Deno.stat(path).catch(() => undefined))?.ino;
}

function test(name: string, body: (path: string) => Promise<void>): void {
  Deno.test(name, async () => {
    await using folder = await makeFolder("socket");
    await body(`${folder.path}/s.sock`);
  });
}

test("the socket answers by method and path", async (path) => {
  {
    await using _ = await serve(path);
    assertEquals(await askDaemon(path, { method: "GET", path: "/v1/status" }), STATUS);
    const services = { method: "GET", path: "/v1/services?name=web" } as const;
    assertEquals(await askDaemon(path, services), ["shop/web"]);
    const requested = await askDaemon(path, { method: "POST", path: "/v1/full-sync" });
    assertEquals(requested, { asked: 1 });
    assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o660);
    await assertRejects(() => askDaemon(path, { method: "GET", path: "/v1/full-sync" }));
    await assertRejects(() => askDaemon(path, { method: "POST", path: "/v2/status" }));
  }
  await assertRejects(() => Deno.stat(path), Deno.errors.NotFound);
});

test("nobody else opens the socket before it has its mode, whatever the umask", async (path) => {
  const script = `
    import { serveSocket } from "${new URL("../../lib/system/socket.ts", import.meta.url).href}";
    Deno.umask(0);
    const serve = Deno.serve;
    Deno.serve = (options, handler) => {
      const server = serve(options, handler);
      const folder = options.path.replace(/[^/]+$/, "");
      console.log((Deno.statSync(folder).mode & 0o777).toString(8));
      return server;
    };
    const logger = { warn: (...words) => console.log(...words) };
    const clock = { sleep: () => Promise.resolve() };
    void serveSocket({ path: ${
    JSON.stringify(path)
  }, clock, logger, signal: AbortSignal.timeout(300) });
  `;
  const command = [Deno.execPath(), "run", "-qA", "--ext=js", "-"];
  assertMatch(await run(command, { stdin: script }), /^700\n$/);
});

test("a socket that an earlier process left is replaced", async (path) => {
  Deno.listen({ transport: "unix", path }).close();
  await Deno.writeTextFile(path, "").catch(() => {});
  await using _ = await serve(path);
});

test("the next daemon's socket outlives this one, in a folder that was not there", async (folder) => {
  const path = `${folder}/run/s.sock`;
  const first = await serve(path);
  await using _ = await serve(path);
  await first[Symbol.asyncDispose]();
  assertEquals(await askDaemon(path, { method: "GET", path: "/v1/status" }), STATUS);
});

test("a socket whose path has no folder makes none in the working directory", async (path) => {
  const cwd = `${path}.d`;
  await Deno.mkdir(cwd);
  const script = `
    import { serveSocket } from "${new URL("../../lib/system/socket.ts", import.meta.url).href}";
    const stop = new AbortController();
    const rename = Deno.rename;
    Deno.rename = async (from, to) => {
      await rename(from, to);
      console.log(to);
      stop.abort();
    };
    const logger = { warn: (...words) => console.log(...words) };
    const clock = { sleep: () => Promise.resolve() };
    await serveSocket({ path: "s.sock", clock, logger, signal: stop.signal });
    for (const { name } of Deno.readDirSync(".")) console.log(name);
  `;
  const command = [Deno.execPath(), "run", "-qA", "--ext=js", "-"];
  assertMatch(await run(command, { stdin: script, cwd }), /^s\.sock\n$/);
});

Deno.test("a folder where no socket can be made is said once", async () => {
  const stop = new AbortController();
  const logger = new MemoryLogger();
  let tries = 0;
  const sleep = () => {
    if (++tries === 3) stop.abort();
    return Promise.resolve();
  };
  await serveSocket({
    path: "/proc/none/s.sock",
    routes: {},
    clock: { sleep },
    logger,
    signal: stop.signal,
  });
  assertEquals([tries, logger.at("warn").length], [3, 1]);
});

test("where no daemon listens, asking fails", async (path) => {
  await assertRejects(() => askDaemon(path, { method: "GET", path: "/v1/status" }));
});

test("the socket gives the objects of all Services or of one", async (path) => {
  await using _ = await serve(path);
  const read = (body: AsyncIterable<Uint8Array<ArrayBuffer>>) =>
    new Response(ReadableStream.from(body)).text();
  const ask = (query: string) =>
    askDaemon(path, { method: "GET", path: `/v1/objects${query}`, read });
  assertEquals(await ask(""), "all");
  assertEquals(await ask("?service=shop%2Fweb"), "shop/web");
  await assertRejects(() => ask("?service=none/none"), Error, "503");
});

test("an answer of more than 64 MiB is refused", async (path) => {
  const chunk = new TextEncoder().encode(" ".repeat(65_536));
  let sent = 0;
  const body = () => new ReadableStream({ pull: (to) => (sent++, to.enqueue(chunk)) });
  const server = Deno.serve({ path, onListen: () => {} }, () => new Response(body()));
  const asked = askDaemon(path, { method: "GET", path: "/v1/status" });
  await assertRejects(() => asked, Error, "the daemon's answer has more than 67108864 bytes");
  assertEquals(sent < 3_000, true, `${sent} chunks were sent`);
  await server.shutdown();
});
