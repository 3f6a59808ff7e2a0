/** The timing of the watches, with a clock that the test owns. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type {
  HttpClient,
  HttpResponse,
  OutgoingRequest,
} from "../../../lib/source/api/api_client.ts";
import type { WatchStatus } from "../../../lib/source/api/reflector.ts";
import { MemorySink, watchServices } from "./fakes.ts";
import { ManualClock, MemoryLogger, settle } from "../../support/clock_and_log.ts";

/** A server that the test plays by hand: each request waits for its answer. */
class ScriptedHttp implements HttpClient {
  readonly requests: OutgoingRequest[] = [];
  #answer: ((response: HttpResponse) => void) | undefined;
  #line: ((line: string | undefined) => void) | undefined;

  request(request: OutgoingRequest): Promise<HttpResponse> {
    this.requests.push(request);
    return new Promise((resolve, reject) => {
      this.#answer = resolve;
      request.signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
    });
  }

  close(): void {}

  get query(): URLSearchParams {
    return this.requests.at(-1)?.url.searchParams ?? new URLSearchParams();
  }

  async answer(status: number, text = "", headers: Record<string, string> = {}): Promise<void> {
    this.#answer?.({ status, headers, body: lines([text]) });
    await settle();
  }

  /** Answers with a stream whose list is empty. */
  async listed(): Promise<(line: string | undefined) => Promise<void>> {
    const send = await this.stream();
    await send(END);
    return send;
  }

  /** Answers with an empty list and the end of the stream; the next request follows. */
  async ended(clock: ManualClock): Promise<void> {
    await (await this.listed())(undefined);
    await clock.advance(1_000);
  }

  /** Answers with a stream that the test feeds line by line; `undefined` ends it. */
  async stream(): Promise<(line: string | undefined) => Promise<void>> {
    const { signal } = this.requests.at(-1) ?? {};
    const next = (): Promise<string | undefined> =>
      new Promise((resolve, reject) => {
        this.#line = resolve;
        signal?.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
      });
    this.#answer?.({ status: 200, headers: {}, body: fed(next) });
    await settle();
    return async (line) => {
      this.#line?.(line);
      await settle();
    };
  }
}

async function* lines(texts: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield new TextEncoder().encode(await Promise.resolve(text));
}

async function* fed(next: () => Promise<string | undefined>): AsyncGenerator<Uint8Array> {
  for (let line = await next(); line !== undefined; line = await next()) {
    yield new TextEncoder().encode(`${line}\n`);
  }
}

function event(type: string, name: string, version: number | string, annotations = {}): string {
  const metadata = { name, resourceVersion: String(version), annotations };
  return JSON.stringify({ type, object: { metadata } });
}

const END = event("BOOKMARK", "", 10, { "k8s.io/initial-events-end": "true" });

interface Playing {
  readonly http: ScriptedHttp;
  readonly clock: ManualClock;
  readonly sink: MemorySink;
  readonly logger: MemoryLogger;
  /** Aborts when the first rules are written. */
  readonly rules: AbortController;
  status(): WatchStatus | undefined;
}

function test(name: string, body: (playing: Playing) => Promise<void>): void {
  Deno.test(name, () => play(body));
}

async function play(test: (playing: Playing) => Promise<void>): Promise<void> {
  const http = new ScriptedHttp();
  const clock = new ManualClock();
  const sink = new MemorySink();
  const logger = new MemoryLogger();
  const stop = new AbortController();
  const rules = new AbortController();
  let status: WatchStatus | undefined;
  const watching = watchServices({
    rulesWritten: rules.signal,
    http,
    clock,
    sink: sink.take,
    logger,
    watchChanged: (changed) => void (status = changed),
    signal: stop.signal,
  });
  await settle();
  try {
    await test({ http, clock, sink, logger, rules, status: () => status });
  } finally {
    stop.abort();
    await watching;
  }
}

Deno.test("a stop in the middle of a frame is not logged", async () => {
  const stop = new AbortController();
  const logger = new MemoryLogger();
  /** The body of a real client ends at the abort. */
  async function* halfFrame(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    yield new Uint8Array([0, 0, 1]);
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  }
  const http: HttpClient = {
    request: ({ signal }) =>
      Promise.resolve({
        status: 200,
        headers: { "content-type": "application/vnd.kubernetes.protobuf;stream=watch" },
        body: halfFrame(signal),
      }),
    close() {},
  };
  const options = { http, protobuf: true, logger, signal: stop.signal };
  const watching = watchServices({ ...options, sink: new MemorySink().take });
  await settle();
  stop.abort();
  await watching;
  assertEquals(logger.lines, []);
});

test("a watch asks for all that a streaming list needs", ({ http }) => {
  assertEquals(Object.fromEntries(http.query), {
    labelSelector: "!service.kubernetes.io/service-proxy-name",
    watch: "true",
    allowWatchBookmarks: "true",
    timeoutSeconds: "450",
    sendInitialEvents: "true",
    resourceVersionMatch: "NotOlderThan",
  });
  return Promise.resolve();
});

test("nothing is delivered before the end of the initial list is marked", async ({ http, sink }) => {
  const send = await http.stream();
  await send(event("ADDED", "a", 1));
  await send(event("ADDED", "b", 2));
  await send(event("BOOKMARK", "", 3));
  await send(event("DELETED", "b", 4));
  assertEquals(sink.events, []);
  await send(END);
  assertEquals(sink.summary("Service"), ["replace default/a"]);
});

test("a streaming list that names nothing new for ten seconds gives way to a paged one", async ({ http, clock }) => {
  const send = await http.stream();
  await send(event("ADDED", "a", 1));
  await clock.advance(9_000);
  await send(event("ADDED", "b", 2));
  await clock.advance(1_000);
  await send(event("BOOKMARK", "", 3));
  await send(event("MODIFIED", "b", 4));
  await clock.advance(9_999);
  assertEquals(http.requests.length, 1);
  await clock.advance(1);
  assertEquals(http.requests.length, 2);
  assertEquals(http.query.get("limit"), "500");
});

test("a watch that is silent for 40 seconds is opened again where it was", async ({ http, clock, logger, status }) => {
  const send = await http.listed();
  for (let bookmark = 1; bookmark <= 10; bookmark++) {
    await clock.advance(33_000);
    await send(event("BOOKMARK", "", 10 + bookmark));
  }
  assertEquals(http.requests.length, 1);
  await clock.advance(39_999);
  assertEquals(http.requests.length, 1);
  await clock.advance(1);
  assertEquals(http.requests.length, 2);
  assertEquals(http.query.get("resourceVersion"), "20");
  assertEquals(status()?.state, "watching");
  assertEquals(logger.messages, []);
});

test("a watch ends twice a minute", async ({ http, clock, status }) => {
  let send = await http.listed();
  for (let watch = 1; watch <= 10; watch++) {
    await clock.advance(31_000);
    await send(event("BOOKMARK", "", 10 + watch));
    await clock.advance(2_000);
    await send(undefined);
    assertEquals(http.query.get("resourceVersion"), String(10 + watch));
    assertEquals(http.query.get("timeoutSeconds"), "33");
    assertEquals(status()?.state, "watching");
    send = await http.stream();
  }
  assertEquals(http.requests.length, 11);
});

test("an open watch is opened again where it was when the first rules are written", async ({ http, rules, logger, status }) => {
  await http.listed();
  rules.abort();
  await settle();
  assertEquals(http.requests.length, 2);
  assertEquals(http.query.get("resourceVersion"), "10");
  assertEquals(status()?.state, "watching");
  const next = await http.stream();
  await next(event("MODIFIED", "a", 11));
  assertEquals(http.requests.length, 2);
  assertEquals(logger.messages, []);
});

test("a list goes on when the first rules are written", async ({ http, rules, sink }) => {
  const send = await http.stream();
  await send(event("ADDED", "a", 1));
  rules.abort();
  await settle();
  await send(END);
  assertEquals(http.requests.length, 1);
  assertEquals(sink.summary("Service"), ["replace default/a"]);
});

test("bytes without an event do not keep a watch", async ({ http, clock }) => {
  const send = await http.listed();
  for (let time = 0; time < 40_000; time += 10_000) {
    assertEquals(http.requests.length, 1);
    await send("");
    await send(JSON.stringify({ type: "NEWS", object: { metadata: { resourceVersion: "11" } } }));
    await clock.advance(10_000);
  }
  assertEquals(http.requests.length, 2);
});

Deno.test("a watch that could not be opened is followed by a list, but for 429", async () => {
  const FAILURES: readonly (readonly [number, string | null])[] = [
    [401, "true"],
    [403, "true"],
    [429, null],
    [500, "true"],
    [503, "true"],
    // The resource version is from a future that never came.
    [504, "true"],
  ];
  for (const [status, list] of FAILURES) {
    await play(async ({ http, clock }) => {
      await http.ended(clock);
      assertEquals(http.query.get("resourceVersion"), "10");
      await http.answer(status);
      await clock.advance(1_000);
      assertEquals([status, http.query.get("sendInitialEvents")], [status, list]);
    });
  }
});

test("403 of a server that has not read its roles yet is not logged", async ({ http, clock, logger }) => {
  await http.ended(clock);
  for (let failure = 0; failure < 3; failure++) {
    await http.answer(403);
    if (http.query.get("sendInitialEvents")) await http.answer(403);
    await clock.advance(1_500);
  }
  await (await http.stream())(END);
  assertEquals(logger.messages, []);
});

for (const [what, time] of [["stall", 40_000], ["end before they stall", 39_000]] as const) {
  test(`a list follows five silent streams that ${what}`, async ({ http, clock }) => {
    await http.ended(clock);
    for (let silence = 1; silence <= 5; silence++) {
      assertEquals([http.requests.length, http.query.get("resourceVersion")], [1 + silence, "10"]);
      const cut = await http.stream();
      await clock.advance(time);
      if (time < 40_000) await cut(undefined);
    }
    assertEquals([http.requests.length, http.query.get("sendInitialEvents")], [7, "true"]);
  });
}

for (const type of ["BOOKMARK", "ADDED", "DELETED"]) {
  test(`a lower resource version in an event ${type} is followed by a list at once`, async ({ http, clock, sink, logger }) => {
    const send = await http.listed();
    await send(event("MODIFIED", "a", 12));
    await send(event(type, "a", 11));
    await clock.advance(250);
    assertEquals([http.requests.length, http.query.get("sendInitialEvents")], [2, "true"]);
    assertEquals(sink.summary("Service"), ["replace", "upsert default/a"]);
    assertMatch(logger.at("warn").join(), /resource version went back from 12 to 11/);
  });
}

test("resource versions that are not numbers are not compared", async ({ http, sink }) => {
  const send = await http.listed();
  for (const version of ["b", "a", "010", "9.5"]) await send(event("ADDED", version, version));
  assertEquals(http.requests.length, 1);
  assertEquals(sink.events.length, 5);
});

test("failures wait longer and longer, a success starts again", async ({ http, clock }) => {
  const waits: number[] = [];
  const fail = async () => {
    clock.sleeps.length = 0;
    await http.answer(503);
    waits.push(Math.min(...clock.sleeps));
    await clock.advance(30_000);
  };
  for (let failure = 0; failure < 4; failure++) await fail();
  const send = await http.listed();
  await send(undefined);
  await clock.advance(30_000);
  await fail();
  assertEquals(waits, [187.5, 375, 750, 1500, 187.5]);
});

test("429 waits as long as the server asks, but not for ever", async ({ http, clock }) => {
  await http.answer(429, "", { "retry-after": "17" });
  await clock.advance(16_999);
  assertEquals(http.requests.length, 1);
  await clock.advance(1_000);
  assertEquals(http.requests.length, 2);
  await http.answer(429, "", { "retry-after": "999999" });
  await clock.advance(121_000);
  assertEquals(http.requests.length, 3);
});

test("a failure that lasts is one warning", async ({ http, clock, logger, status }) => {
  for (let failure = 0; failure < 5; failure++) {
    await http.answer(403, JSON.stringify({ message: "not yours" }));
    await http.answer(403, JSON.stringify({ message: "not yours" }));
    await clock.advance(60_000);
  }
  assertEquals(logger.at("warn").length, 1);
  assert(logger.at("warn")[0]?.includes("not yours"), logger.at("warn")[0]);
  assertEquals(status()?.state, "listing");
  await http.listed();
  assertEquals(logger.at("info").length, 1);
  assertEquals(status()?.lastError, "");
});

test("an event that is garbage time and again leads to a new list", async ({ http, clock }) => {
  const send = await http.listed();
  await send("garbage");
  for (let failure = 0; failure < 6; failure++) {
    await clock.advance(60_000);
    if (http.query.get("resourceVersion") === null) break;
    await (await http.stream())("garbage");
  }
  assertEquals(http.query.get("sendInitialEvents"), "true");
});

test("after an outage, 410 leads to a new list at once", async ({ http, clock, logger }) => {
  await http.ended(clock);
  for (let failure = 0; failure < 8; failure++) {
    await http.answer(503);
    await clock.advance(30_000);
  }
  const { length } = http.requests;
  await http.answer(410);
  await clock.advance(250);
  assertEquals(http.requests.length, length + 1);
  assertEquals(http.query.get("sendInitialEvents"), "true");
  assertEquals(logger.failures("gone"), 1);
});

test("a server that says 410 to every watch is listed later and later", async ({ http, clock, logger }) => {
  const waits: number[] = [];
  for (let round = 0; round < 9; round++) {
    const send = await http.listed();
    clock.sleeps.length = 0;
    await send(JSON.stringify({ type: "ERROR", object: { code: 410, message: "too old" } }));
    waits.push(Math.min(...clock.sleeps));
    await clock.advance(30_000);
  }
  assertEquals(waits, [187.5, 375, 750, 1500, 3000, 6000, 12_000, 22_500, 22_500]);
  assertEquals(logger.at("warn").length, 8);
});
