/**
 * An API server that means ill, or one that is none: what it sends without end stays small here.
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import type { HttpClient } from "../../../lib/source/api/api_client.ts";
import { WatchError } from "../../../lib/source/api/failure.ts";
import { parseWatchEvent, splitFrames, splitLines } from "../../../lib/source/api/watch_events.ts";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import { eventually } from "../../support/eventually.ts";
import { encodeEvent } from "../../support/protobuf.ts";
import { MemorySink, watchServices } from "./fakes.ts";
import { service, withWatch } from "./watch_fixture.ts";

const MB = 1024 * 1024;

/** Bytes in memory beside the program, by what V8 counts. */
function used(): number {
  const { heapUsed, external } = Deno.memoryUsage();
  return heapUsed + external;
}

for (const [what, split] of [["line", splitLines], ["frame", splitFrames]] as const) {
  Deno.test(`a ${what} in chunks of one byte takes a small multiple of its length`, async () => {
    const before = used();
    let growth = 0;
    const body = (async function* () {
      // As a frame, it is longer.
      yield new Uint8Array([0, 0x61, 0x61, 0x61]);
      const chunk = new Uint8Array([0x61]);
      for (let i = 0; i < 4 * MB; i++) yield chunk;
      growth = used() - before;
    })();
    await assertRejects(
      () => Array.fromAsync<unknown>(split(body)),
      WatchError,
      `within a ${what}`,
    );
    assert(growth < 32 * MB, `${growth} bytes`);
  });
}

/** Lists Services from a server that refuses streaming lists, up to the first list or failure of one. */
async function listFrom(page: (request: number, limit: number) => unknown, maxObjects?: number) {
  const stop = new AbortController();
  const sink = new MemorySink();
  let pages = 0;
  let failure: string | undefined;
  const http: HttpClient = {
    request: ({ url }) => {
      const isList = !url.searchParams.has("watch");
      const body = (async function* () {
        const next = isList && page(pages++, Number(url.searchParams.get("limit")));
        if (next instanceof Error) throw next;
        if (next) {
          yield new TextEncoder().encode(typeof next === "string" ? next : JSON.stringify(next));
        }
      })();
      return Promise.resolve({ status: isList ? 200 : 400, headers: {}, body });
    },
    close: () => {},
  };
  await watchServices({
    http,
    sink: (event) => {
      sink.take(event);
      stop.abort();
    },
    watchChanged: ({ state, lastError }) => {
      if (state !== "backoff") return;
      failure = lastError;
      stop.abort();
    },
    signal: stop.signal,
    ...maxObjects !== undefined && { limits: { maxObjects } },
  });
  return { pages, failure, objects: sink.state.get("Service")?.size };
}

function page(names: readonly string[], next: string) {
  const items = names.map((name) => ({ metadata: { name } }));
  return { kind: "ServiceList", metadata: { resourceVersion: "1", continue: next }, items };
}

Deno.test("a continue token that repeats itself ends the list", async () => {
  const { pages, failure } = await listFrom((request) => page([`s${request}`], "again"));
  assertEquals(failure, "the list does not end: its continue token repeats");
  assertEquals(pages, 2);
});

Deno.test("ten pages without a new object end the list, fewer do not", async () => {
  const endless = await listFrom((request) => page(["a"], `token-${request}`));
  assertEquals(endless.failure, "the list does not end: 10 pages repeat it");
  assertEquals(endless.pages, 11);
  const sparse = await listFrom((request) =>
    page(request % 10 === 9 ? [`s${request}`] : [], request < 50 ? `token-${request}` : "")
  );
  assertEquals([sparse.failure, sparse.objects], [undefined, 5]);
});

Deno.test("pages with new objects for ever end at the limit of objects", async () => {
  const { pages, failure } = await listFrom(
    (request) => page([`s${request}`], `token-${request}`),
    100,
  );
  assertStringIncludes(failure ?? "", "more than 100 Service objects");
  assertEquals(pages, 101);
});

Deno.test("a page with more values than any objects have is refused", async () => {
  const body = `{"kind":"ServiceList","items":[${"{},".repeat(2_000_000)}{}]}`;
  const { failure } = await listFrom(() => body);
  assertStringIncludes(failure ?? "", "more than 2000000 values");
});

Deno.test("large objects of one namespace fit into smaller pages", async () => {
  let next = 0;
  const large = "[],".repeat(30_000);
  const { failure, objects } = await listFrom((_, limit) => {
    const names = Array.from({ length: Math.min(limit, 500 - next) }, (_, i) => `s${next + i}`);
    const items = names.map((name) => `{"metadata":{"name":"${name}"},"spec":[${large}[]]}`);
    if (names.length <= 33) next += names.length;
    const metadata = `{"resourceVersion":"1","continue":"${next < 500 ? next : ""}"}`;
    return `{"kind":"ServiceList","metadata":${metadata},"items":[${items}]}`;
  });
  assertEquals([failure, objects], [undefined, 500]);
});

for (
  const [what, error] of [
    ["breaks off", new Error("reset")],
    ["is late", new WatchError("stalled", "")],
  ] as const
) {
  Deno.test(`a page that ${what} is asked for again with fewer objects`, async () => {
    const limits: number[] = [];
    const { failure, objects } = await listFrom((_, limit) => {
      limits.push(limit);
      if (limit > 63) return error;
      return limits.length === 2 ? page(["a"], "next") : page(["b"], "");
    });
    assertEquals([failure, objects, limits], [undefined, 2, [500, 63, 63]]);
  });
}

Deno.test("an answer that reads like a reason to ask again is refused", async () => {
  const { pages } = await listFrom((request) => request < 9 && '"too-large"');
  assertEquals(pages, 1);
});

for (const protobuf of [true, false]) {
  Deno.test(`a watch keeps at most the limit, in ${protobuf ? "protobuf" : "JSON"}`, async () => {
    await withWatch({ protobuf, limits: { maxObjects: 10 } }, async ({ server, sink, status }) => {
      for (let i = 0; i < 9; i++) server.store.put(service(`s${i}`, "1"));
      server.store.put(service("a", "2"));
      await eventually("ten are there", () => sink.version("Service", "default/a") === "2");
      server.store.put(service("one-too-many", "1"));
      await eventually("it is seen", () => status().lastError.includes("more than 10 Service"));
      assertEquals(sink.state.get("Service")?.size, 10);
      server.store.delete("Service", "default/s0");
      server.store.delete("Service", "default/one-too-many");
      server.store.put(service("a", "3"));
      await eventually("it goes on", () => sink.version("Service", "default/a") === "3");
      assertEquals(sink.state.get("Service")?.size, 9);
      assertEquals(sink.lost, ["default/s0"]);
    });
  });
}

Deno.test("a list of more objects than the limit is not taken", async () => {
  await withWatch(
    { objects: 20, limits: { maxObjects: 10 }, waitForList: false },
    async (watched) => {
      const { server, sink, logger, requests } = watched;
      await eventually("it is seen", () => logger.failures("too-many") > 2);
      assertEquals(sink.events, []);
      assertEquals(requests("list").length, 0, "pages would bring no fewer");
      for (let i = 1; i < 20; i++) server.store.delete("Service", `default/extra-${i}`);
      await eventually("the list", () => sink.events.length > 0);
    },
  );
});

Deno.test("14 MB of empty labels are refused before they fill the memory", () => {
  const labels = new Uint8Array(14 * MB);
  for (let i = 0; i < labels.length; i += 2) labels[i] = (11 << 3) | 2;
  const slice = new BinaryWriter().tag(1, 2).bytes(labels).finish();
  const frame = encodeEvent("ADDED", wrap(slice)).subarray(4);
  const before = used();
  assertThrows(() => parseWatchEvent(frame), Error, "more than 800000 values");
  assert(used() - before < 150 * MB, `${used() - before} bytes`);
});

for (const [what, number, most] of [["endpoints", 2, 10_000], ["ports", 3, 20_000]] as const) {
  Deno.test(`a slice of 790,000 empty ${what} is refused alone, before they are read`, () => {
    const label = new BinaryWriter().tag(1, 2).string("kubernetes.io/service-name")
      .tag(2, 2).string("web").finish();
    const metadata = new BinaryWriter().tag(1, 2).string("web-1").tag(3, 2).string("shop")
      .tag(6, 2).string("5").tag(11, 2).bytes(label).finish();
    const entries = new Uint8Array(2 * 790_000);
    for (let i = 0; i < entries.length; i += 2) entries[i] = (number << 3) | 2;
    const slice = new BinaryWriter().tag(1, 2).bytes(metadata).raw(entries)
      .tag(4, 2).string("IPv4").finish();
    const event = parseWatchEvent(encodeEvent("ADDED", wrap(slice)).subarray(4));
    if (event?.type !== "changed") throw new Error("it is no change");
    assertEquals((event.object as Record<string, unknown[]>)[what]?.length, most + 1);
    assertEquals(createDecoder()("EndpointSlice", event.object), {
      type: "refuse",
      kind: "EndpointSlice",
      key: "shop/web-1",
      reason: `${what} must have ${most} entries at most`,
    });
  });
}

Deno.test("a list of more than a namespace may have is taken in part", async () => {
  const limits = { maxBytes: { all: 10_000, namespace: 1_000 } };
  await withWatch({ objects: 1_000, limits }, async ({ server, sink, logger }) => {
    const [list] = sink.events;
    if (list?.type !== "replace") throw new Error("it is no list");
    const refused = [...list.changes.values()].filter(({ type }) => type === "refuse");
    const taken = list.changes.size - refused.length;
    assert(taken > 10 && taken < 100, `${taken}`);
    assertEquals(refused.filter((each) => each.type === "refuse" && !each.isLogged).length, 1);
    assert(refused.every((each) => each.type === "refuse" && each.isExcess));
    server.store.put({ ...service("b", "1"), metadata: { name: "b", namespace: "other" } });
    await eventually("other namespaces go on", () => sink.version("Service", "other/b") === "");
    assertEquals(logger.at("warn"), []);
  });
});

for (const [what, text] of [["[", "["], ["{}", "{},"], ["0", "0,"]] as const) {
  Deno.test(`14 MB of ${what} in JSON are refused before they fill the memory`, () => {
    const line = `{"type":"ADDED","object":[${text.repeat(14 * MB / text.length)}`;
    const before = used();
    assertThrows(() => parseWatchEvent(line), Error, "more than 2000000 values");
    assert(used() - before < 32 * MB, `${used() - before} bytes`);
  });
}

Deno.test("a list with nothing usable in it is given up after a thousand entries", () => {
  const ports = Array.from({ length: 1_002 }, () => ({}));
  const raw = { metadata: { name: "web" }, spec: { clusterIP: "10.96.0.1", ports } };
  const decoded = createDecoder()("Service", raw);
  assertEquals(decoded, {
    type: "refuse",
    kind: "Service",
    key: "default/web",
    reason: "spec.ports must have 1000 unusable entries at most; " +
      ["0", "1", "2", "3", "4"].map((at) =>
        `spec.ports[${at}].port must be a number from 1 to 65535, is null; `
      ).join("") + "and 996 more",
  });
});

/** An EndpointSlice as the API server sends it. */
function wrap(raw: Uint8Array): Uint8Array {
  const prefix = new TextEncoder().encode("k8s\0");
  const typeMeta = new BinaryWriter().tag(2, 2).string("EndpointSlice").finish();
  return new BinaryWriter().raw(prefix).tag(1, 2).bytes(typeMeta).tag(2, 2).bytes(raw).finish();
}
