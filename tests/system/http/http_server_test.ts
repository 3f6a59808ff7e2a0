import { assertEquals, assertMatch } from "@std/assert";
import { type HttpHandler, type HttpListener, textAnswer } from "../../../lib/model/ports/http.ts";
import { httpListen } from "../../../lib/system/http/servers.ts";
import { runWithFewDescriptors } from "../../support/few_descriptors.ts";

const echo: HttpHandler = ({ method, path, search, host }) =>
  textAnswer(`${method} ${path}${search} of ${host}\n`);

/** A client of bytes. */
class Raw implements Disposable {
  readonly #conn: Deno.Conn;

  private constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  static async connect(listener: HttpListener, text = ""): Promise<Raw> {
    const raw = new Raw(await Deno.connect({ hostname: "127.0.0.1", port: listener.port }));
    if (text !== "") await raw.send(text);
    return raw;
  }

  async send(text: string): Promise<void> {
    await this.#conn.write(Uint8Array.from(text, (each) => each.charCodeAt(0)));
  }

  /** What comes until the text matches, or the other side closes. */
  async until(pattern = /(?!)/): Promise<string> {
    const buffer = new Uint8Array(65_536);
    let text = "";
    while (!pattern.test(text)) {
      const read = await this.#conn.read(buffer).catch(() => null);
      if (read === null) return text;
      text += new TextDecoder("latin1").decode(buffer.subarray(0, read));
    }
    return text;
  }

  [Symbol.dispose](): void {
    this.#conn.close();
  }
}

const GET = "GET /a?b HTTP/1.1\r\nHost: node\r\n\r\n";
const END = /of \S*\n$/;

function listen(limits: Partial<Parameters<typeof httpListen>[0]> = {}, handler = echo) {
  return httpListen({ connections: 256, time: 30_000, ...limits })(
    { hostname: "127.0.0.1", port: 0 },
    handler,
  );
}

Deno.test("requests follow each other on one connection, sent one by one, in pieces or together", async () => {
  const listener = listen();
  {
    using client = await Raw.connect(listener, GET);
    assertMatch(
      await client.until(END),
      /^HTTP\/1\.1 200 OK\r\n[^]*Content-Length: 17\r\n[^]*Connection: keep-alive\r\n\r\nGET \/a\?b of node\n$/i,
    );
    for (const part of GET.match(/.{1,7}/gs) ?? []) await client.send(part);
    await client.until(END);
    await client.send(GET + GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    assertEquals((await client.until()).match(/GET \/a\?b of node/g)?.length, 2);
  }
  await listener.close();
});

Deno.test("an answer is written at one go", async () => {
  const listener = listen();
  using client = await Raw.connect(listener, GET);
  assertMatch(await client.until(/./s), END);
  await listener.close();
});

Deno.test("HTTP/2 with prior knowledge and by upgrade is not spoken", async () => {
  const listener = listen();
  {
    using preface = await Raw.connect(
      listener,
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    );
    assertMatch(await preface.until(), /^HTTP\/1\.1 505 /);
    using upgrade = await Raw.connect(
      listener,
      GET.replace("\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
    );
    assertMatch(await upgrade.until(END), /^HTTP\/1\.1 200 /);
  }
  await listener.close();
});

Deno.test("what could be understood in two ways, or is no HTTP, is refused, and the connection ends", async () => {
  const listener = listen();
  const cases: readonly (readonly [string, string, RegExp])[] = [
    ["two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["no host", "GET / HTTP/1.1\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["a folded line", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["NUL", "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["bare LF", "GET / HTTP/1.1\nHost: a\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["TLS", "\x16\x03\x01\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["a long head", `GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}`, /^HTTP\/1\.1 431 /],
    [
      "a body in two lengths: it is not read, so that no second request hides in it",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
      GET,
      /^HTTP\/1\.1 200 [^]*POST \/ of a\n$/,
    ],
    ["HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", /^HTTP\/1\.1 200 [^]*GET \/ of \n$/],
    [
      "a whole URL",
      "GET http://b/c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
      /GET \/c of b\n$/,
    ],
  ];
  for (const [name, text, pattern] of cases) {
    using client = await Raw.connect(listener, text);
    assertMatch(await client.until(), pattern, name);
  }
  await listener.close();
});

Deno.test("a connection that is idle, or half a request, ends with its time", async () => {
  const listener = listen({ time: 500 });
  for (const text of ["", "GET / HT", GET]) {
    using client = await Raw.connect(listener, text);
    await client.until();
  }
  await listener.close();
});

Deno.test("a client that does not take its answer is not waited for", async () => {
  const listener = listen({ time: 500 }, () => textAnswer("x".repeat(50_000_000)));
  const raw = await Raw.connect(listener, GET);
  const other = await Raw.connect(
    listener,
    GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
  );
  await other.until();
  raw[Symbol.dispose]();
  other[Symbol.dispose]();
  await listener.close();
});

Deno.test("idle connections beyond the limit make room, and a request is answered all the same", async () => {
  const listener = listen({ connections: 8 });
  const idle = await Promise.all(Array.from({ length: 50 }, () => Raw.connect(listener)));
  for (let turn = 0; turn < 3; turn++) {
    using client = await Raw.connect(listener, GET);
    assertMatch(await client.until(END), /^HTTP\/1\.1 200 /);
  }
  const closed = idle.slice(0, 40);
  await Promise.all(closed.map((each) => each.until()));
  for (const each of idle) each[Symbol.dispose]();
  await listener.close();
});

Deno.test("without free descriptors the port stays open, and answers when there are some", async () => {
  const module = new URL("../../../lib/system/http/servers.ts", import.meta.url).href;
  const script = `
    import { listenHttp } from "${module}";
    // As signpost does; Deno cannot begin with it when no descriptor is free.
    Deno.addSignalListener("SIGTERM", () => {});
    const answer = { status: 200, headers: {}, body: "hello" };
    const listener = listenHttp({ hostname: "127.0.0.1", port: 0 }, () => answer);
    let ended = false;
    listener.finished.then(() => ended = true);
    const held = [];
    try { for (;;) held.push(Deno.openSync("/dev/null")); } catch { /* none is left */ }
    held.pop().close();
    const conn = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
    await conn.write(new TextEncoder().encode("GET / HTTP/1.0\\r\\n\\r\\n"));
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (const file of held) file.close();
    const buffer = new Uint8Array(999);
    let text = "";
    for (let read; (read = await conn.read(buffer)) !== null;) {
      text += new TextDecoder().decode(buffer.subarray(0, read));
    }
    console.log(text.split("\\r\\n")[0], ended);
    Deno.exit();
  `;
  const { stdout, stderr } = await runWithFewDescriptors(script);
  assertEquals(stdout, "HTTP/1.1 200 OK false\n", stderr);
});
