import { assert, assertEquals, assertRejects } from "@std/assert";
import type { ApiAccess } from "../../../lib/source/api/access/access.ts";
import {
  ApiClient,
  type HttpClient,
  type HttpResponse,
  type OutgoingRequest,
  type RequestObserver,
  type RequestResult,
  type ResponseRead,
} from "../../../lib/source/api/api_client.ts";
import { StatusError, WatchError } from "../../../lib/source/api/failure.ts";
import { encodeObject } from "../../support/protobuf.ts";
import { chunks } from "./streams.ts";
import { ANONYMOUS } from "./fakes.ts";
import { ManualClock, settle } from "../../support/clock_and_log.ts";

const ACCESS: ApiAccess = {
  ...ANONYMOUS,
  server: new URL("http://192.0.2.1:8080/prefix/"),
  token: { type: "inline", text: "t", origin: "test" },
};

/** Answers with what it was given; without an answer it waits for the abort. */
class FakeHttp implements HttpClient {
  readonly requests: OutgoingRequest[] = [];
  closed = 0;
  constructor(private readonly answer?: HttpResponse | Error) {}
  request(request: OutgoingRequest): Promise<HttpResponse> {
    this.requests.push(request);
    if (this.answer instanceof Error) return Promise.reject(this.answer);
    if (this.answer) return Promise.resolve(this.answer);
    return new Promise((_, reject) =>
      request.signal.addEventListener("abort", () => reject(new Error("aborted")))
    );
  }
  close(): void {
    this.closed++;
  }
}

function client(
  http: HttpClient,
  clock = new ManualClock(),
  observer: RequestObserver = {},
): ApiClient {
  const client = new ApiClient({
    http,
    clock,
    access: () => Promise.resolve(ACCESS),
    readFile: () => Promise.reject(new Error("no files")),
    userAgent: "signpost/test",
  });
  client.observer = observer;
  return client;
}

async function* body(...parts: readonly (string | Promise<never>)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield new TextEncoder().encode(await part);
}

function answer(status: number, parts: AsyncIterable<Uint8Array>, headers = {}): HttpResponse {
  return { status, headers, body: parts };
}

const signal = new AbortController().signal;
const get = (http: HttpClient, clock?: ManualClock) =>
  client(http, clock).json("/api/v1/nodes", {
    signal,
    query: { fieldSelector: "metadata.name=a&b" },
  });

Deno.test("a request carries the server's path, the query, the token and our name", async () => {
  const http = new FakeHttp(answer(200, body("{}")));
  await client(http).json("/api/v1/x", {
    signal,
    method: "POST",
    body: { a: 1 },
    query: { q: "a&b" },
  });
  const [request] = http.requests;
  assertEquals(request?.url.href, "http://192.0.2.1:8080/prefix/api/v1/x?q=a%26b");
  assertEquals(request?.headers, {
    "accept": "application/json",
    "user-agent": "signpost/test",
    "authorization": "Bearer t",
    "content-type": "application/json",
  });
  assertEquals(request?.body, '{"a":1}');
});

Deno.test("the server's message is understood in protobuf too", async () => {
  const status = encodeObject({ kind: "Status", message: "too\nmany", code: 429 });
  const http = new FakeHttp(answer(429, chunks([status])));
  const error = await assertRejects(() => get(http), StatusError);
  assertEquals(error.message, "GET /api/v1/nodes: 429 too many");
});

Deno.test("an error status carries the server's message in one line", async () => {
  const message = JSON.stringify({ kind: "Status", message: "too\nmany\u001b[31m" });
  const http = new FakeHttp(answer(429, body(message), { "retry-after": "7" }));
  const error = await assertRejects(() => get(http), StatusError);
  assertEquals(error.message, "GET /api/v1/nodes: 429 too many [31m");
  assertEquals([error.reason, error.retryAfter], ["throttled", 7000]);
  assert(http.requests[0]?.signal.aborted, "the connection is let go");
});

Deno.test("an error status counts though its message has no end", async () => {
  let read = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (; read < 1024; read++) yield await Promise.resolve(new Uint8Array(1024).fill(0x61));
  }
  const error = await assertRejects(() => get(new FakeHttp(answer(503, endless()))), StatusError);
  assertEquals([error.message, read], ["GET /api/v1/nodes: 503", 64]);
});

Deno.test("an error status counts though its message does not come", async () => {
  const clock = new ManualClock();
  async function* silent(): AsyncGenerator<Uint8Array> {
    await new Promise((_, reject) =>
      http.requests[0]?.signal.addEventListener("abort", () => reject(new Error("aborted")))
    );
    yield new Uint8Array();
  }
  const http: FakeHttp = new FakeHttp(answer(410, silent()));
  const pending = assertRejects(() => get(http, clock), StatusError);
  await settle();
  await clock.advance(60_000);
  assertEquals((await pending).message, "GET /api/v1/nodes: 410");
});

Deno.test("a body that is not JSON differs from a broken one", async () => {
  const reason = async (http: HttpClient) =>
    (await assertRejects(() => get(http), WatchError)).reason;
  assertEquals(await reason(new FakeHttp(answer(200, body("<html>")))), "garbage");
  assertEquals(
    await reason(new FakeHttp(answer(200, body("{", Promise.reject(new Error("ECONNRESET")))))),
    "dropped",
  );
  assertEquals(await reason(new FakeHttp(new Error("ECONNREFUSED"))), "connection");
});

Deno.test("silence closes the connections that are kept for the next request", async () => {
  const clock = new ManualClock();
  const http = new FakeHttp();
  const pending = assertRejects(() => get(http, clock), WatchError);
  await settle();
  await clock.advance(59_999);
  assertEquals(http.closed, 0);
  await clock.advance(1);
  assertEquals([(await pending).reason, http.closed], ["stalled", 1]);
});

Deno.test("a body has new time when the caller renews it, bytes do not count", async () => {
  const clock = new ManualClock();
  const next: ((text: string) => void)[] = [];
  async function* slow(request: () => OutgoingRequest | undefined): AsyncGenerator<Uint8Array> {
    for (;;) {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      next.push(resolve);
      request()?.signal.addEventListener("abort", () => reject(new Error("aborted")));
      yield new TextEncoder().encode(await promise);
    }
  }
  const http: FakeHttp = new FakeHttp(answer(200, slow(() => http.requests[0])));
  const stream = await client(http, clock).open("/x", { signal, silence: 1000 });
  const seen: string[] = [];
  const reading = assertRejects(async () => {
    for await (const chunk of stream.body) seen.push(new TextDecoder().decode(chunk));
  }, WatchError);
  for (const text of ["a", "b", "c"]) {
    await settle();
    await clock.advance(999);
    next.shift()?.(text);
    await settle();
    stream.renew();
  }
  await clock.advance(999);
  next.shift()?.("d");
  await settle();
  await clock.advance(1);
  assertEquals((await reading).reason, "stalled");
  assertEquals(seen, ["a", "b", "c", "d"]);
});

Deno.test("late headers take no time from the body", async () => {
  const clock = new ManualClock();
  async function* late(): AsyncGenerator<Uint8Array> {
    await clock.sleep(50_000);
    yield new TextEncoder().encode("{}");
  }
  const http: HttpClient = {
    request: () => clock.sleep(50_000).then(() => answer(200, late())),
    close: () => {},
  };
  const asking = get(http, clock);
  await settle();
  await clock.advance(50_000);
  await clock.advance(50_000);
  assertEquals(await asking, {});
});

Deno.test("an answer that does not end in time is late", async () => {
  const clock = new ManualClock();
  async function* slow(): AsyncGenerator<Uint8Array> {
    yield new TextEncoder().encode("{");
    await clock.sleep(60_001);
  }
  const asking = assertRejects(() => get(new FakeHttp(answer(200, slow())), clock), WatchError);
  await settle();
  await clock.advance(60_000);
  await clock.advance(1);
  assertEquals((await asking).reason, "late");
});

Deno.test("an aborted caller ends its request", async () => {
  const stop = new AbortController();
  const http = new FakeHttp();
  const pending = assertRejects(() => client(http).json("/x", { signal: stop.signal }));
  await settle();
  stop.abort();
  await pending;
  assert(http.requests[0]?.signal.aborted);
});

Deno.test("requests, retries and sizes are counted as client-go counts them", async () => {
  const done: RequestResult[] = [];
  const read: ResponseRead[] = [];
  const answers = [answer(503, body("later")), new Error("reset"), answer(200, body("{", "}"))];
  const http: HttpClient = {
    request: () => {
      const next = answers.shift() ?? answer(201, body("{}"));
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
    },
    close: () => {},
  };
  const asking = client(http, new ManualClock(), {
    requestDone: (result) => void done.push(result),
    responseRead: (response) => void read.push(response),
  });
  const path = "/api/v1/services";
  await assertRejects(() => asking.json(path, { signal }));
  await assertRejects(() => asking.json(path, { signal }));
  await asking.json(path, { signal });
  await asking.json(path, { signal });
  await asking.json("/events", { signal, method: "POST", body: { a: "\u00e4" } });
  const watch = await asking.open(path, { signal, query: { watch: "true" } });
  for await (const _ of watch.body);
  assertEquals(done.map(({ verb, code, size, retryOf }) => [verb, code, size, retryOf]), [
    ["GET", "503", 0, undefined],
    ["GET", "<error>", 0, "503"],
    ["GET", "200", 0, "<error>"],
    ["GET", "201", 0, undefined],
    ["POST", "201", 10, undefined],
    ["GET", "201", 0, undefined],
  ]);
  const host = "192.0.2.1:8080";
  assertEquals(done.every((result) => result.host === host), true);
  assertEquals(read, [
    { verb: "GET", host, size: 5 },
    { verb: "GET", host, size: 2 },
    { verb: "GET", host, size: 2 },
    { verb: "POST", host, size: 2 },
  ]);
});
