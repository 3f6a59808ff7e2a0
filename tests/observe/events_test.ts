import { assertEquals, assertMatch } from "@std/assert";
import { EventRecorder, type EventReport } from "../../lib/observe/events.ts";
import { ManualClock, MemoryLogger, START } from "../support/clock_and_log.ts";

function report(
  name = "web",
  note = "two Services claim 10.96.0.1",
  namespace = "shop",
): EventReport {
  return {
    regarding: { kind: "Service", namespace, name, uid: "u1" },
    type: "Warning",
    reason: "VirtualIPConflict",
    action: "Sync",
    note,
  };
}

function start(
  answer: () => number | Promise<number> = () => 201,
  { instance = "n1", now = START } = {},
) {
  const clock = new ManualClock(now);
  const logger = new MemoryLogger();
  const posts: { path: string; body: Record<string, unknown> }[] = [];
  const state = { answer, dropped: 0 };
  const recorder = new EventRecorder({
    post: async (path, body) => {
      posts.push({ path, body });
      return await state.answer();
    },
    clock,
    logger,
    instance,
    dropped: () => {
      state.dropped += 1;
    },
  });
  return { clock, logger, posts, recorder, state };
}

Deno.test("an Event says what, where, when and by whom", async () => {
  const { recorder, posts } = start();
  recorder.record(report());
  await recorder.flushed();
  assertEquals(posts.length, 1);
  assertEquals(posts[0]?.path, "/apis/events.k8s.io/v1/namespaces/shop/events");
  const { metadata, ...body } = posts[0]?.body ?? {};
  assertMatch(JSON.stringify(metadata), /^{"name":"web\.[0-9a-f]+","namespace":"shop"}$/);
  assertEquals(body, {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    eventTime: "2026-01-02T03:04:05.000000Z",
    reportingController: "signpost",
    reportingInstance: "signpost-n1",
    action: "Sync",
    reason: "VirtualIPConflict",
    type: "Warning",
    regarding: { apiVersion: "v1", kind: "Service", name: "web", namespace: "shop", uid: "u1" },
    note: "two Services claim 10.96.0.1",
  });
});

Deno.test("an Event about the Node lives in the namespace default", async () => {
  const { recorder, posts } = start();
  recorder.record({ ...report(), regarding: { kind: "Node", name: "n1", uid: "" } });
  await recorder.flushed();
  assertEquals(posts[0]?.path, "/apis/events.k8s.io/v1/namespaces/default/events");
  assertEquals(posts[0]?.body.regarding, { apiVersion: "v1", kind: "Node", name: "n1" });
});

Deno.test("what the API server would refuse is cut to its limits, secrets are taken out", async () => {
  const long = "a".repeat(253);
  const { recorder, posts } = start(undefined, { instance: long, now: 1e15 });
  recorder.record(report(long, `Bearer abc\n${"ü".repeat(2_000)}`));
  await recorder.flushed();
  const { note, reportingInstance, metadata } = posts[0]?.body ?? {};
  assertEquals(new TextEncoder().encode(String(note)).length <= 1024, true);
  assertMatch(String(note), /^Bearer \[redacted\]\\nü+$/);
  assertEquals(String(reportingInstance).length, 128);
  const { name } = JSON.parse(JSON.stringify(metadata));
  assertMatch(name, /^[a-z0-9.]{1,253}$/);
});

Deno.test("an Event that repeats itself is sent once, then as a series", async () => {
  const { recorder, posts, clock } = start();
  for (let time = 0; time < 5; time++) recorder.record(report());
  await recorder.flushed();
  assertEquals(posts.length, 1);
  await clock.advance(600_000);
  recorder.record(report());
  await recorder.flushed();
  assertEquals(posts.map(({ body }) => body.series), [
    undefined,
    { count: 6, lastObservedTime: "2026-01-02T03:14:05.000000Z" },
  ]);
});

Deno.test("one noisy object is limited, the others still get through", async () => {
  const { recorder, posts, state, clock } = start();
  for (let number = 0; number < 100; number++) recorder.record(report("noisy", `note ${number}`));
  recorder.record(report("quiet"));
  await recorder.flushed();
  assertEquals(posts.length, 11);
  assertEquals(state.dropped, 90);
  await clock.advance(60_000);
  recorder.record(report("noisy", "later"));
  await recorder.flushed();
  assertEquals(posts.length, 12);
});

Deno.test("an API server that does not answer blocks nothing and fills no memory", async () => {
  const { promise, resolve } = Promise.withResolvers<number>();
  const { recorder, posts, clock, state } = start(() => promise);
  for (let number = 0; number < 201; number++) {
    recorder.record(report("web", "late", `shop-${number}`));
    clock.pass(1_000);
  }
  assertEquals(posts.length, 1);
  assertEquals(state.dropped, 100);
  resolve(201);
  await recorder.flushed();
  assertEquals(posts.length, 101);
});

Deno.test("a refusal gives one log line", async () => {
  const { recorder, posts, logger, state, clock } = start(() => 403);
  for (const name of ["a", "b", "c"]) recorder.record(report(name));
  await recorder.flushed();
  assertEquals(posts.length, 1);
  await clock.advance(299_999);
  recorder.record(report("d"));
  await clock.advance(1);
  recorder.record(report("e"));
  await recorder.flushed();
  assertEquals(posts.length, 2);
  assertEquals(state.dropped, 5);
  assertEquals(logger.entries, [{
    level: "info",
    message: "cannot send Events",
    fields: {
      reason: "the API server answers 403: to see Events, let this node create events " +
        "(API group events.k8s.io)",
    },
  }]);
  state.answer = () => 201;
  await clock.advance(300_000);
  recorder.record(report("f"));
  await recorder.flushed();
  assertEquals(posts.length, 3);
});

Deno.test("a lost connection drops the Event and goes on", async () => {
  const { recorder, logger, state } = start(() => Promise.reject(new Error("reset")));
  recorder.record(report("a"));
  recorder.record(report("b"));
  await recorder.flushed();
  assertEquals(state.dropped, 2);
  assertEquals(logger.messages, ["cannot send Events"]);
});

Deno.test("the Events of one namespace take none from another, nor from the Node", async () => {
  const { recorder, posts } = start();
  for (let i = 0; i < 300; i++) recorder.record(report(`web${i}`, "hostile", "evil"));
  await recorder.flushed();
  assertEquals(posts.length, 25);
  recorder.record(report("web", "lost", "bank"));
  recorder.record({ ...report(), regarding: { kind: "Node", name: "n1", uid: "n1" } });
  await recorder.flushed();
  assertEquals(posts.length, 27);
});
