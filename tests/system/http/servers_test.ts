import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type HttpHandler, type HttpListener, textAnswer } from "../../../lib/model/ports/http.ts";
import { listenHttp, serveHttp, type ServeOptions } from "../../../lib/system/http/servers.ts";
import { ManualClock, MemoryLogger, settle, START } from "../../support/clock_and_log.ts";

const hello: HttpHandler = ({ method, path }) => textAnswer(`${method} ${path}`);

async function fetchText(url: string, init?: RequestInit): Promise<[number, string]> {
  const response = await fetch(url, init);
  return [response.status, await response.text()];
}

Deno.test("a listener on one address serves there, and HEAD has no body", async () => {
  for (const [hostname, host] of [["127.0.0.1", "127.0.0.1"], ["::1", "[::1]"]] as const) {
    const listener = listenHttp({ hostname, port: 0 }, hello);
    const url = `http://${host}:${listener.port}/a/b?c=d`;
    assertEquals(await fetchText(url), [200, "GET /a/b"]);
    assertEquals(await fetchText(url, { method: "HEAD" }), [200, ""]);
    await listener.close();
  }
});

Deno.test("the addresses 0.0.0.0 and :: stand for all addresses of both families", async () => {
  for (const hostname of ["0.0.0.0", "::"]) {
    const listener = listenHttp({ hostname, port: 0 }, hello);
    for (const host of ["127.0.0.1", "[::1]"]) {
      assertEquals(await fetchText(`http://${host}:${listener.port}/`), [200, "GET /"]);
    }
    await listener.close();
  }
});

Deno.test("closing frees the port at once, with connections open", async () => {
  const first = listenHttp({ hostname: "127.0.0.1", port: 0 }, hello);
  const address = { hostname: "127.0.0.1", port: first.port };
  assertThrows(() => listenHttp(address, hello), Deno.errors.AddrInUse);
  const idle = await Deno.connect(address);
  await first.close();
  await listenHttp(address, hello).close();
  idle.close();
});

Deno.test("a handler that fails gives 500 and leaves the server running", async () => {
  let failing = true;
  const listener = listenHttp({ hostname: "127.0.0.1", port: 0 }, (request) => {
    if (failing) throw new Error("a secret");
    return hello(request);
  });
  const url = `http://127.0.0.1:${listener.port}/`;
  assertEquals(await fetchText(url), [500, "internal error\n"]);
  failing = false;
  assertEquals(await fetchText(url), [200, "GET /"]);
  await listener.close();
});

Deno.test("requests that are no HTTP do not stop the server", async () => {
  const listener = listenHttp({ hostname: "127.0.0.1", port: 0 }, hello);
  const encoder = new TextEncoder();
  for (const text of ["\0\xff\r\n\r\n", "GET\r\n\r\n", `GET / HTTP/1.1\r\n${"a".repeat(99)}`]) {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
    await connection.write(encoder.encode(text));
    await connection.closeWrite();
    await connection.readable.pipeTo(new WritableStream()).catch(() => {});
  }
  assertEquals(await fetchText(`http://127.0.0.1:${listener.port}/`), [200, "GET /"]);
  await listener.close();
});

/** Fails so often, then listens on nothing. */
function flakyListen(failures: number): { attempts: number; listen: ServeOptions["listen"] } {
  const state = {
    attempts: 0,
    listen: (): HttpListener => {
      state.attempts += 1;
      if (state.attempts <= failures) throw new Deno.errors.AddrInUse("in use");
      const { promise, resolve } = Promise.withResolvers<void>();
      return { port: 1, finished: promise, close: () => (resolve(), promise) };
    },
  };
  return state;
}

Deno.test("binding is tried again every five seconds, and the failure is logged once", async () => {
  const clock = new ManualClock(START);
  const logger = new MemoryLogger();
  const stop = new AbortController();
  const flaky = flakyListen(3);
  const failures: string[] = [];
  const served = serveHttp({ hostname: "::1", port: 10256 }, {
    name: "healthz",
    handler: hello,
    hardFail: false,
    listen: flaky.listen,
    failed: (message) => void failures.push(message),
    clock,
    logger,
    signal: stop.signal,
  });
  for (const attempts of [1, 2, 3, 4]) {
    await settle();
    assertEquals(flaky.attempts, attempts);
    await clock.advance(5_000);
  }
  assertEquals(flaky.attempts, 4);
  assertEquals(logger.messages, ["cannot listen; trying again every 5 seconds"]);
  assertEquals(logger.entries[0]?.fields.address, "[::1]:10256");
  assertEquals(failures, ["healthz server: cannot listen on [::1]:10256: in use"]);
  stop.abort();
  await served;
});

Deno.test("with bindAddressHardFail the first failure is final", async () => {
  const error = await assertRejects(() =>
    serveHttp({ hostname: "127.0.0.1", port: 10249 }, {
      name: "metrics",
      handler: hello,
      hardFail: true,
      listen: flakyListen(1).listen,
      clock: new ManualClock(START),
      logger: new MemoryLogger(),
      signal: new AbortController().signal,
    })
  );
  assert(error instanceof Error);
  assertEquals(error.message, "metrics server: cannot listen on 127.0.0.1:10249: in use");
});
