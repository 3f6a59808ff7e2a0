import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { type HttpHandler, type HttpListener, textAnswer } from "../../lib/model/ports/http.ts";
import { httpListen, serveHttp, type ServeOptions } from "../../lib/system/http_servers.ts";
import { eventually } from "../support/eventually.ts";
import { Libc } from "../support/libc.ts";
import { ManualClock, MemoryLogger, realClock, settle, START } from "../support/clock_and_log.ts";

const listen = httpListen({ clock: realClock, logger: new MemoryLogger() });

const hello: HttpHandler = ({ method, path }) => textAnswer(`${method} ${path}`);
const echo: HttpHandler = ({ method, path, search, host, family }) =>
  textAnswer(`${method} ${path}${search} of ${host} by IPv${family}`);

async function fetchText(url: string, init?: RequestInit): Promise<[number, string]> {
  const response = await fetch(url, init);
  return [response.status, await response.text()];
}

/** Sends bytes, and gives what comes until the other side closes. */
async function exchange({ port }: HttpListener, text: string): Promise<string> {
  using conn = await Deno.connect({ hostname: "127.0.0.1", port });
  await conn.write(Uint8Array.from(text, (each) => each.charCodeAt(0)));
  await conn.closeWrite();
  return await new Response(conn.readable).text().catch(() => "");
}

Deno.test("a listener on one address serves there", async () => {
  for (const [hostname, host] of [["127.0.0.1", "127.0.0.1"], ["::1", "[::1]"]] as const) {
    const listener = listen({ hostname, port: 0 }, hello);
    const url = `http://${host}:${listener.port}/a/b?c=d`;
    assertEquals(await fetchText(url), [200, "GET /a/b"]);
    assertEquals(await fetchText(url, { method: "HEAD" }), [200, ""]);
    await listener.close();
  }
});

Deno.test("the address :: stands for all addresses of both families", async () => {
  const both = listen({ hostname: "::", port: 0 }, echo);
  for (const [host, family] of [["127.0.0.1", 4], ["[::1]", 6]] as const) {
    const authority = `${host}:${both.port}`;
    const answer = `GET / of ${authority} by IPv${family}`;
    assertEquals(await fetchText(`http://${authority}/`), [200, answer]);
  }
  await both.close();
  const four = listen({ hostname: "0.0.0.0", port: 0 }, hello);
  assertEquals(await fetchText(`http://127.0.0.1:${four.port}/`), [200, "GET /"]);
  await assertRejects(() => fetch(`http://[::1]:${four.port}/`));
  await four.close();
});

Deno.test("closing frees the port at once", async () => {
  const asked = Promise.withResolvers<void>();
  const first = listen({ hostname: "127.0.0.1", port: 0 }, () => {
    asked.resolve();
    return new Promise(() => {});
  });
  const address = { hostname: "127.0.0.1", port: first.port };
  assertThrows(() => listen(address, hello), Deno.errors.AddrInUse);
  const idle = await Deno.connect(address);
  const waiting = exchange(first, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await asked.promise;
  await first.close();
  await listen(address, hello).close();
  assertEquals(await waiting, "");
  assertEquals(await idle.read(new Uint8Array(1)), null);
  idle.close();
});

Deno.test("clients that reset their connections do not end or delay others", async () => {
  using libc = new Libc();
  const logger = new MemoryLogger();
  // A pause would not end by this clock.
  const listener = httpListen({ clock: new ManualClock(START), logger })(
    { hostname: "127.0.0.1", port: 0 },
    hello,
  );
  const { port } = listener;
  using idle = await Deno.connect({ hostname: "127.0.0.1", port });
  const ended = idle.read(new Uint8Array(1));
  assertEquals((await fetchText(`http://127.0.0.1:${port}/`))[0], 200);
  // No other work runs meanwhile, so the listener accepts connections that are reset.
  const home = libc.openNamespace("/proc/self/ns/net");
  for (let i = 0; i < 100; i++) {
    const socket = libc.socket(home, { family: 4, type: "tcp" });
    libc.connect(socket, { address: "127.0.0.1", port });
    libc.resetOnClose(socket);
    libc.close(socket);
  }
  libc.close(home);
  const answered = exchange(listener, "GET / HTTP/1.0\r\n\r\n").then(Boolean);
  assertEquals(await Promise.race([answered, ended]), true);
  assertEquals(await Promise.race([ended, settle().then(() => "open")]), "open");
  assertEquals(logger.lines, []);
  await listener.close();
  await ended;
});

Deno.test("a handler that fails gives 500 and leaves the server running", async () => {
  let failing = true;
  const listener = listen({ hostname: "127.0.0.1", port: 0 }, (request) => {
    if (failing) throw new Error("a secret");
    return hello(request);
  });
  const url = `http://127.0.0.1:${listener.port}/`;
  assertEquals(await fetchText(url), [500, "internal error\n"]);
  failing = false;
  assertEquals(await fetchText(url), [200, "GET /"]);
  await listener.close();
});

Deno.test("a request can be understood in one way, or is refused", async () => {
  const listener = listen({ hostname: "127.0.0.1", port: 0 }, echo);
  const get = "GET /a?b HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
  const cases: readonly (readonly [string, string, RegExp])[] = [
    ["one host", get, /^HTTP\/1\.1 200 OK\r\n[^]*GET \/a\?b of node by IPv4$/],
    ["two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["no URL", "GET / HTTP/1.1\r\nHost: a b<>\r\nConnection: close\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["a folded line", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["NUL", "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["TLS", "\x16\x03\x01\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["no HTTP", "\0\xff\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["a long head", `GET / HTTP/1.1\r\nX: ${"x".repeat(1_000_000)}`, /^(HTTP\/1\.1 4|$)/],
    [
      "a body in two lengths",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
      get,
      /^HTTP\/1\.1 400 [^\n]*\n(?![^]*HTTP)/,
    ],
    ["HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", /^HTTP\/1\.0 200 [^]*GET \/ of undefined /],
    ["LF alone", "GET / HTTP/1.0\n\n", /^HTTP\/1\.0 200 /],
    ["LF and CRLF", "GET / HTTP/1.1\nHost: a\r\nConnection: close\n\r\n", /^HTTP\/1\.1 200 /],
    ["LF first", `\n\n${get}`, /^HTTP\/1\.1 400 /],
    ["CR alone", "GET / HTTP/1.0\rX: a\n\n", /^HTTP\/1\.1 400 /],
    ["half a request", "GET / HT", /^$/],
    [
      "HTTP/2",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
      /^HTTP\/1\.1 400 [^]*\r\n\r\nbad request\n$/,
    ],
    [
      "8,000 blanks",
      `GET / HTTP/1.1\r\nHost: a\r\nX:${" ".repeat(8_000)}\0\r\n\r\n`,
      /^HTTP\/1\.1 400 /,
    ],
    [
      "another blank",
      "GET / HTTP/1.1\r\nHost: \xa0a\r\nConnection: close\r\n\r\n",
      /^HTTP\/1\.1 400 /,
    ],
    [
      "blanks around values",
      "GET / HTTP/1.1\r\nHost: \t a \t\r\nConnection: \t close\r\n\r\n",
      /GET \/ of a by IPv4$/,
    ],
    [
      "a whole URL",
      "GET http://b/c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
      /GET \/c of b by IPv4$/,
    ],
  ];
  for (const [name, text, pattern] of cases) {
    assertMatch(await exchange(listener, text), pattern, name);
  }
  assertEquals((await fetchText(`http://127.0.0.1:${listener.port}/`))[0], 200);
  await listener.close();
});

Deno.test("a large body arrives whole", async () => {
  const body = "a🚦".repeat(100_000);
  const listener = listen({ hostname: "127.0.0.1", port: 0 }, () => textAnswer(body));
  assertEquals(await fetchText(`http://127.0.0.1:${listener.port}/`), [200, body]);
  await listener.close();
});

Deno.test("clients that do not read hold a small part of a large body", async () => {
  const body = "a".repeat(20_000_000);
  let asked = 0;
  const listener = listen({ hostname: "127.0.0.1", port: 0 }, () => {
    asked++;
    return textAnswer(body);
  });
  const { rss } = Deno.memoryUsage();
  const request = new TextEncoder().encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(9));
  const clients = await Promise.all(Array.from({ length: 50 }, async () => {
    const client = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
    await client.write(request);
    await client.read(new Uint8Array(1));
    return client;
  }));
  const grown = Deno.memoryUsage().rss - rss;
  for (const client of clients) client.close();
  await listener.close();
  assertEquals(asked, clients.length);
  assert(grown < 500e6, `${grown} bytes`);
});

Deno.test("a connection ends after 100 requests", async () => {
  const listener = listen({ hostname: "127.0.0.1", port: 0 }, hello);
  const text = await exchange(listener, "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(150));
  const [last = "", ...others] = text.split(/(?=HTTP\/1\.1 200 OK)/).reverse();
  assertEquals(others.length, 99);
  assertMatch(last, /\r\nConnection: close\r\n/);
  assertEquals(others.filter((each) => /Connection:/.test(each)), []);
  await listener.close();
});

Deno.test("a new connection of the node is answered before the later requests of others", async () => {
  let asked = 0;
  const listener = listen({ hostname: "127.0.0.1", port: 0 }, () => {
    asked++;
    return textAnswer("ok");
  });
  const requests = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
  const clients = Array.from({ length: 50 }, () => exchange(listener, requests));
  while (asked < 60) await settle();
  assertEquals(await fetchText(`http://127.0.0.1:${listener.port}/`), [200, "ok"]);
  assert(asked < 1_000, `${asked} requests were answered first`);
  await listener.close();
  await Promise.all(clients);
});

Deno.test("a client that does not take its answer loses the connection after 10 seconds", async () => {
  const listener = listen({ hostname: "127.0.0.1", port: 0 }, () => textAnswer("a".repeat(2e7)));
  using conn = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
  await conn.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  await new Promise((resolve) => setTimeout(resolve, 11_000));
  const { byteLength } = await new Response(conn.readable).arrayBuffer()
    .catch(() => new ArrayBuffer(0));
  assert(byteLength < 2e7, `${byteLength} bytes arrived`);
  await listener.close();
});

/** Serves until stopped, by a clock of the test, with the listeners that the test gives. */
function serve(address: string, options: Pick<ServeOptions, "listen"> & Partial<ServeOptions>) {
  const [hostname = "", port] = address.split(" ");
  const [clock, stop] = [new ManualClock(START), new AbortController()];
  const served = serveHttp({ hostname, port: Number(port) }, {
    name: "healthz",
    handler: hello,
    hardFail: false,
    clock,
    logger: new MemoryLogger(),
    signal: stop.signal,
    ...options,
  });
  return { served, clock, stop };
}

/** Fails so often, then listens on nothing. */
function flakyListen(failures: number): { attempts: number; listen: ServeOptions["listen"] } {
  const state = {
    attempts: 0,
    listen: (): HttpListener => {
      state.attempts += 1;
      if (state.attempts <= failures) throw new Deno.errors.AddrInUse("in use");
      return { port: 1, close: () => Promise.resolve() };
    },
  };
  return state;
}

Deno.test("0.0.0.0 and :: are served on all addresses of both families, as in Go", async () => {
  for (const hostname of ["0.0.0.0", "::", "192.0.2.1"]) {
    const asked: string[] = [];
    const { served, stop } = serve(`${hostname} 10256`, {
      listen: (address) => {
        asked.push(address.hostname);
        return { port: 1, close: () => Promise.resolve() };
      },
    });
    stop.abort();
    await served;
    assertEquals(asked, [hostname === "192.0.2.1" ? hostname : "::"]);
  }
});

Deno.test("binding is tried again every five seconds", async () => {
  const flaky = flakyListen(3);
  const failures: string[] = [];
  const { served, clock, stop } = serve("::1 10256", {
    listen: flaky.listen,
    failed: (message) => void failures.push(message),
    listening: () => void failures.push("listening"),
  });
  for (const attempts of [1, 2, 3, 4]) {
    await settle();
    assertEquals(flaky.attempts, attempts);
    await clock.advance(5_000);
  }
  assertEquals(flaky.attempts, 4);
  assertEquals(failures, ["healthz server: cannot listen on [::1]:10256: in use", "listening"]);
  stop.abort();
  await served;
});

Deno.test("with bindAddressHardFail the first failure is final", async () => {
  const { served } = serve("127.0.0.1 10249", { listen: flakyListen(1).listen, hardFail: true });
  const message = "healthz server: cannot listen on 127.0.0.1:10249: in use";
  await assertRejects(() => served, Error, message);
});

Deno.test("the servers are idle when the last connection has ended", async () => {
  let idle = 0;
  const listening = httpListen({
    clock: realClock,
    logger: new MemoryLogger(),
    idle: () => idle++,
  });
  const listener = listening({ hostname: "127.0.0.1", port: 0 }, hello);
  const clients = [];
  for (let i = 0; i < 2; i++) {
    const client = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
    await client.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    await client.read(new Uint8Array(1));
    clients.push(client);
  }
  clients[0]?.close();
  await exchange(listener, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  assertEquals(idle, 0);
  clients[1]?.close();
  await eventually("the last connection has ended", () => idle > 0);
  await listener.close();
});
