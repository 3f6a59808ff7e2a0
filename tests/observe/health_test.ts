import { assertEquals } from "@std/assert";
import type { Finding } from "../../lib/model/status.ts";
import { FINDING } from "./page/contents.ts";
import { healthServer } from "../../lib/observe/endpoints.ts";
import { ProxyHealth } from "../../lib/observe/health.ts";
import { ManualClock, START } from "../support/clock_and_log.ts";
import { NO_PROGRESS } from "./support/work.ts";

const TIMEOUT = 60_000;

/** A loop whose work the test decides. */
class FakeLoop {
  progress = NO_PROGRESS;

  constructor(private readonly clock: ManualClock) {}

  queued(): void {
    const { progress, clock } = this;
    this.progress = { ...progress, waitingSince: progress.waitingSince ?? clock.monotonic() };
  }

  moved(): void {
    this.progress = { ...this.progress, moved: this.clock.monotonic() };
  }

  failed(): void {
    this.progress = { ...this.progress, moved: -Infinity, failures: this.progress.failures + 1 };
  }

  updated(): void {
    const synced = this.clock.now();
    this.progress = { ...this.progress, waitingSince: undefined, failures: 0, synced };
  }
}

function start() {
  const clock = new ManualClock(START);
  const loop = new FakeLoop(clock);
  const node = { isEligible: false };
  const health = new ProxyHealth({
    clock,
    timeout: TIMEOUT,
    isEligible: () => node.isEligible,
    sync: () => loop.progress,
  });
  const counts: string[] = [];
  const found: Finding[] = [];
  const handler = healthServer({
    pid: 1,
    health,
    findings: () => found,
    metrics: { healthAnswered: (path, status) => void counts.push(`${path} ${status}`) },
  });
  const get = async (path: string) => {
    const { status, body } = await handler({ method: "GET", path });
    return { status, body: JSON.parse(body) };
  };
  return { clock, loop, node, handler, get, counts, found };
}

Deno.test("a starting proxy is alive, but takes no traffic before its Node is seen", async () => {
  const { get, node } = start();
  const times = { lastUpdated: "0001-01-01T00:00:00Z", currentTime: "2026-01-02T03:04:05.000Z" };
  assertEquals(await get("/healthz"), {
    status: 503,
    body: { ...times, nodeEligible: false, healthy: true },
  });
  assertEquals(await get("/livez"), {
    status: 200,
    body: { ...times, lastUpdated: times.currentTime, healthy: true },
  });
  node.isEligible = true;
  assertEquals((await get("/healthz")).status, 200);
});

Deno.test("a proxy is ready when the kernel has its rules", async () => {
  const { handler, clock, counts, loop } = start();
  const readiness = async () => (await handler({ method: "GET", path: "/readyz" })).status;
  loop.queued();
  assertEquals(await readiness(), 503);
  loop.updated();
  assertEquals(await readiness(), 200);
  loop.queued();
  await clock.advance(2 * TIMEOUT);
  assertEquals([await readiness(), counts], [200, []]);
});

Deno.test("/readyz?pid= is 200 only if the process that answers has this number", async () => {
  const { handler, loop } = start();
  const ask = async (search: string) =>
    (await handler({ method: "GET", path: "/readyz", search })).status;
  assertEquals(await ask("?pid=1"), 503);
  loop.updated();
  const asked = ["", "?pid=1", "?other=2", "?pid=2", "?pid=", "?pid=01", "?pid=x"];
  assertEquals(await Promise.all(asked.map(ask)), [200, 200, 200, 503, 503, 503, 503]);
});

Deno.test("an update that waits for two sync periods makes the proxy unhealthy", async () => {
  const { clock, node, get, loop } = start();
  node.isEligible = true;
  loop.updated();
  loop.queued();
  await clock.advance(TIMEOUT - 1);
  assertEquals((await get("/healthz")).status, 200);
  loop.queued(); // A later update does not hide that the first still waits.
  await clock.advance(1);
  const body = {
    lastUpdated: "2026-01-02T03:04:05.000Z",
    currentTime: "2026-01-02T03:05:05.000Z",
    healthy: false,
    status: {
      IPv4: { lastUpdated: "2026-01-02T03:04:05.000Z", healthy: false },
      IPv6: { lastUpdated: "2026-01-02T03:04:05.000Z", healthy: false },
    },
  };
  assertEquals(await get("/healthz"), { status: 503, body: { ...body, nodeEligible: true } });
  assertEquals(await get("/livez"), { status: 503, body });
  loop.updated();
  assertEquals((await get("/livez")).status, 200);
});

Deno.test("a large table that gets on is not late, unless it fails each time", async () => {
  const { clock, get, loop } = start();
  loop.updated();
  loop.queued();
  for (let part = 0; part < 3; part++) {
    await clock.advance(TIMEOUT - 1);
    loop.moved();
  }
  await clock.advance(TIMEOUT - 1);
  assertEquals((await get("/livez")).status, 200);
  await clock.advance(1);
  assertEquals((await get("/livez")).status, 503, "it has stopped");
  loop.moved();
  assertEquals((await get("/livez")).status, 200);
  loop.failed();
  assertEquals((await get("/livez")).status, 503);
  loop.moved();
  assertEquals((await get("/livez")).status, 200, "a second try");
  loop.failed();
  loop.moved();
  assertEquals((await get("/livez")).status, 503);
  loop.updated();
  loop.queued();
  await clock.advance(TIMEOUT - 1);
  loop.moved();
  await clock.advance(TIMEOUT - 1);
  assertEquals((await get("/livez")).status, 200);
});

Deno.test("a healthy proxy says that it was updated just now", async () => {
  const { clock, get, loop } = start();
  loop.updated();
  await clock.advance(3_600_000);
  const { body } = await get("/livez");
  assertEquals(body.lastUpdated, body.currentTime);
  assertEquals(body.status.IPv4.lastUpdated, "2026-01-02T03:04:05.000Z");
});

Deno.test("before the first sync nothing is late", async () => {
  const { clock, get, loop } = start();
  loop.queued();
  await clock.advance(10 * TIMEOUT);
  assertEquals((await get("/livez")).status, 200);
});

Deno.test("answers have kube-proxy's headers and are counted by code", async () => {
  const { handler, get, counts } = start();
  const { headers } = await handler({ method: "GET", path: "/livez" });
  assertEquals(headers, {
    "Content-Type": "application/json",
    "X-Content-Type-Options": "nosniff",
  });
  await get("/healthz");
  assertEquals(counts, ["livez 200", "healthz 503"]);
});

Deno.test("a family without rules has no health", async () => {
  const missing = new Map([[6, "this node has no IPv6"]] as const);
  const clock = new ManualClock(START);
  const loop = new FakeLoop(clock);
  const health = new ProxyHealth({
    clock,
    timeout: TIMEOUT,
    missing,
    isEligible: () => true,
    sync: () => loop.progress,
  });
  const handler = healthServer({
    pid: 1,
    health,
    findings: () => [],
    metrics: { healthAnswered: () => {} },
  });
  loop.queued();
  loop.updated();
  const { body } = await handler({ method: "GET", path: "/livez" });
  const answer = JSON.parse(body);
  assertEquals(Object.keys(answer.status), ["IPv4"]);
  assertEquals(answer.missing, { IPv6: "this node has no IPv6" });
});

Deno.test("health names the kinds of findings that are more than worth knowing", async () => {
  const { get, node, found } = start();
  node.isEligible = true;
  found.push(FINDING, FINDING, { ...FINDING, id: "mode-is-open", severity: "info" });
  const { status, body } = await get("/healthz");
  assertEquals([status, body.findings], [200, [FINDING.id]]);
});

Deno.test("an error finding makes the body unhealthy", async () => {
  const { get, node, found } = start();
  node.isEligible = true;
  found.push({ ...FINDING, severity: "error" });
  for (const path of ["/healthz", "/livez"]) {
    const { status, body } = await get(path);
    assertEquals([status, body.healthy], [200, false], path);
  }
});
