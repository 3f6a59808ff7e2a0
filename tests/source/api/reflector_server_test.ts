/** The watches against the test API server, over TLS, with every fault that it knows. */
import { assert, assertEquals } from "@std/assert";
import type { Fault } from "../../support/api_faults.ts";
import { eventually } from "../../support/eventually.ts";
import { service, type WatchSetup, withWatch } from "./watch_fixture.ts";
import { sideBySide } from "../../support/side_by_side.ts";

const test = sideBySide("watches with faults", 4);

test("a streaming list delivers one replace, then each change as it happens", async () => {
  await withWatch({}, async ({ server, sink, requests }) => {
    server.store.put(service("b", "2"));
    await eventually("b is there", () => sink.version("Service", "default/b") === "2");
    server.store.put(service("a", "3"));
    await eventually("a has changed", () => sink.version("Service", "default/a") === "3");
    server.store.delete("Service", "default/b");
    await eventually("b is gone", () => sink.version("Service", "default/b") === undefined);
    assertEquals(sink.summary("Service"), [
      "replace default/a",
      "upsert default/b",
      "upsert default/a",
      "delete default/b",
    ]);
    assertEquals(requests("streamingList").length, 1);
    assertEquals(requests("list").length, 0);
  });
});

test("refused objects differ from ignored ones", async () => {
  await withWatch({}, async ({ server, sink }) => {
    server.store.put(service("a", "2", { refuse: "no ports" }));
    await eventually("a is refused", () => sink.summary("Service").at(-1) === "refuse default/a");
    server.store.put(service("a", "3", { ignore: "" }));
    await eventually("a is gone", () => sink.summary("Service").at(-1) === "delete default/a");
  });
});

test("services of other proxies and headless ones do not come in, nor leave a trace", async () => {
  await withWatch({}, async ({ server, sink }) => {
    server.store.put(service("foreign", "1", { "service.kubernetes.io/service-proxy-name": "x" }));
    server.store.put({ ...service("headless", "1"), spec: { clusterIP: "None" } });
    server.store.put(service("a", "2", { "service.kubernetes.io/service-proxy-name": "x" }));
    await eventually("a is gone", () => sink.summary("Service").at(-1) === "delete default/a");
    assertEquals(sink.summary("Service"), ["replace default/a", "delete default/a"]);
  });
});

for (const streamingLists of ["refuse", "ignore"] as const) {
  test(`a server that would ${streamingLists} streaming lists is listed in pages`, async () => {
    await withWatch({
      server: { streamingLists },
      limits: { quiet: 100, pageSize: 2 },
      objects: 5,
    }, async ({ server, sink, requests }) => {
      assertEquals(requests("list").length, 3);
      assertEquals(sink.state.get("Service")?.size, 5);
      server.store.put(service("b", "2"));
      await eventually("b is there", () => sink.version("Service", "default/b") === "2");
      server.compact();
      await eventually("it is listed again", () => requests("list").length === 6);
      assertEquals(requests("streamingList").length, 1, "it is not asked for a second time");
      assertEquals(sink.lost, []);
    });
  });
}

test("an expired continue token lists everything in one page", async () => {
  const options: WatchSetup = {
    server: { streamingLists: "refuse" },
    limits: { pageSize: 2 },
    objects: 5,
  };
  await withWatch({
    ...options,
    early: (server) => {
      server.faults.add({ type: "status", status: 410, on: "list", kind: "Service", after: 1 });
    },
  }, ({ sink, requests }) => {
    assertEquals(sink.state.get("Service")?.size, 5);
    assertEquals(requests("list").map(({ query }) => query["limit"]), ["2", "2", undefined]);
    return Promise.resolve();
  });
});

const FAULTS: readonly Fault[] = [
  ...[401, 403, 410, 429, 500, 503].map((status) => ({ type: "status", status } as const)),
  { type: "status", status: 429, retryAfter: 1 },
  { type: "errorEvent", status: 410 },
  { type: "errorEvent", status: 500 },
  { type: "garbage" },
  { type: "halfLine" },
  { type: "cut" },
  { type: "close" },
];

for (const fault of FAULTS) {
  const name = "status" in fault ? `${fault.type} ${fault.status}` : fault.type;
  const wish = "retryAfter" in fault ? " with Retry-After" : "";
  test(`${name}${wish} at start delays the first list, no more`, async () => {
    await withWatch(
      { early: (server) => server.faults.add({ ...fault, count: 4 }) },
      ({ sink }) => {
        assertEquals(sink.summary("Service"), ["replace default/a"]);
        return Promise.resolve();
      },
    );
  });

  test(`${name}${wish} while watching loses nothing`, async () => {
    await withWatch({}, async ({ server, sink }) => {
      server.faults.add({ ...fault, count: 3 });
      server.dropStreams();
      server.store.put(service("b", "2"));
      server.store.put(service("a", "2"));
      await eventually("b is there", () => sink.version("Service", "default/b") === "2");
      await eventually("a has changed", () => sink.version("Service", "default/a") === "2");
      assertEquals(sink.lost, []);
      assertEquals(server.faults.left, 0);
    });
  });
}

test("a dropped stream goes on from the last resource version, without a list", async () => {
  await withWatch({}, async ({ server, sink, requests }) => {
    for (const end of [false, true]) {
      server.store.put(service("b", `before ${end}`));
      await eventually("b came", () => sink.version("Service", "default/b") === `before ${end}`);
      const version = String(server.store.resourceVersion);
      server.dropStreams({ end });
      await eventually("it is watched again", () => server.openStreams === 1);
      assertEquals(requests("watch").at(-1)?.query["resourceVersion"], version);
      server.store.put(service("b", `after ${end}`));
      await eventually("b changed", () => sink.version("Service", "default/b") === `after ${end}`);
    }
    assertEquals(requests("streamingList").length, 1);
  });
});

test("garbage and half lines on a running stream lose no event", async () => {
  await withWatch({ protobuf: false }, async ({ server, sink, logger }) => {
    for (
      const text of ['{"type":"ADDED","obj', "\u0000\n", '{"type":"ADDED","object":{}}\n', "[]\n"]
    ) {
      server.store.put(service("b", `before ${text}`));
      await eventually("b came", () => sink.version("Service", "default/b") === `before ${text}`);
      server.sendRaw(text);
      server.dropStreams({ end: true });
      server.store.put(service("b", text));
      await eventually("b changed", () => sink.version("Service", "default/b") === text);
      await eventually("the stream is back", () => server.openStreams === 1);
    }
    assert(logger.failures("garbage") >= 3);
    assertEquals(sink.lost, []);
  });
});

test("protobuf that cannot be understood loses no event", async () => {
  await withWatch({}, async ({ server, sink, logger, requests }) => {
    server.sendRaw("<html>");
    await eventually("it is listed again", () => requests("streamingList").length === 2);
    server.store.put(service("b", "2"));
    await eventually("b came", () => sink.version("Service", "default/b") === "2");
    assertEquals(logger.failures("garbage"), 1);
    assertEquals(sink.lost, []);
  });
});

test("servicecidrs that the server does not know are an empty state, looked for again", async () => {
  const limits = { absent: 50 };
  await withWatch({ kind: "ServiceCIDR", server: { serviceCIDRs: false }, limits }, async (
    { server, sink, status },
  ) => {
    assertEquals(sink.summary("ServiceCIDR"), ["replace"]);
    server.options.serviceCIDRs = true;
    server.store.put({ kind: "ServiceCIDR", metadata: { name: "kubernetes" } });
    await eventually("the CIDR is there", () => sink.state.get("ServiceCIDR")?.size === 1);
    server.options.serviceCIDRs = false;
    server.dropStreams();
    await eventually("they are absent", () => status().state === "absent");
    assertEquals(sink.lost, [], "what was there stays");
  });
});

test("servicecidrs that the server refuses beside Services are a failure", async () => {
  const early: WatchSetup["early"] = (server) => {
    server.faults.add({ type: "status", status: 403, count: 40, kind: "Service" });
    // Services are refused before it is.
    server.faults.add({ type: "cut", count: 3, kind: "ServiceCIDR" });
    server.faults.add({ type: "status", status: 403, count: 10, kind: "ServiceCIDR" });
    server.store.put({ kind: "ServiceCIDR", metadata: { name: "kubernetes" } });
  };
  const kinds = ["Service", "ServiceCIDR"] as const;
  await withWatch({ kinds, early, waitForList: false }, async ({ server, sink }) => {
    await eventually("Services are in", () => sink.state.get("Service")?.size === 1);
    await eventually("the CIDR is there", () => sink.state.get("ServiceCIDR")?.size === 1);
    assertEquals(server.faults.left, 0);
    assertEquals(sink.summary("ServiceCIDR"), ["replace kubernetes"]);
  });
});

test("servicecidrs that were refused are asked for again once Services are in", async () => {
  const early: WatchSetup["early"] = (server) => {
    server.faults.add({ type: "status", status: 403, count: 2, kind: "ServiceCIDR" });
    server.faults.add({ type: "slow", milliseconds: 300, kind: "Service" });
    server.store.put({ kind: "ServiceCIDR", metadata: { name: "kubernetes" } });
  };
  const kinds = ["Service", "ServiceCIDR"] as const;
  await withWatch({ kinds, early }, async ({ sink }) => {
    assertEquals(sink.state.get("ServiceCIDR")?.size, 0, "the start goes on without them");
    await eventually("the CIDR is there", () => sink.state.get("ServiceCIDR")?.size === 1);
    assertEquals(sink.state.get("Service")?.size, 1);
  });
});

test("servicecidrs that we may not read do not hold up the start", async () => {
  const early: WatchSetup["early"] = (server) =>
    server.faults.add({ type: "status", status: 403, count: 6 });
  const limits = { absent: 50 };
  await withWatch({ kind: "ServiceCIDR", early, limits }, async (
    { sink, logger, server, status },
  ) => {
    assertEquals(sink.summary("ServiceCIDR"), ["replace"]);
    await eventually("they are absent", () => status().state === "absent");
    await eventually("it goes on asking", () => server.faults.left === 0);
    const lines = [...logger.at("info"), ...logger.at("warn")];
    assertEquals(lines, [], "the finding says it");
  });
});
