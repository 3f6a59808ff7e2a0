import { assertEquals } from "@std/assert";
import { ObjectCache } from "../../lib/cache/cache.ts";
import { Observation } from "../../lib/daemon/observation.ts";
import type { ObjectEvent } from "../../lib/model/events.ts";
import type { Node } from "../../lib/model/objects.ts";
import { healthServer } from "../../lib/observe/endpoints.ts";
import { ProxyHealth } from "../../lib/observe/health.ts";
import { createMetrics } from "../../lib/observe/metrics/metrics.ts";
import { FakeClock } from "../observe/support/fakes.ts";

const NODE: Node = {
  name: "node-1",
  uid: "u1",
  addresses: ["192.0.2.10"],
  podCIDRs: [],
  zone: "",
  deleting: false,
};

/** Events of the Node, as they come in; none is followed by a sync. */
const SEEN: ObjectEvent = upsert(NODE);
const DRAINED: ObjectEvent = upsert({ ...NODE, deleting: true });
const GONE: ObjectEvent = { type: "delete", kind: "Node", key: "node-1" };
const NONE: ObjectEvent = {
  type: "replace",
  kind: "Node",
  objects: new Map(),
  refused: new Map(),
};

function upsert(object: Node): ObjectEvent {
  return { type: "upsert", kind: "Node", key: "node-1", object };
}

/** What `/healthz` answers after these events. */
async function healthzAfter(
  events: readonly ObjectEvent[],
  standInNode?: { readonly deleting: boolean },
): Promise<number> {
  const clock = new FakeClock();
  const cache = new ObjectCache();
  const health = new ProxyHealth({ clock, timeout: 60_000 });
  const observation = new Observation({
    cache,
    nodeName: "node-1",
    metrics: createMetrics({
      mode: "nftables",
      families: [4, 6],
      now: () => 0,
      version: "",
      commit: "",
      snapshotAge: () => undefined,
      isStale: () => false,
      process: { residentMemory: () => 0, cpu: () => 0, started: 0 },
    }),
    health,
    clock,
    standInNode,
    report: () => {},
    healthChecks: () => {},
    synced: () => {},
  });
  for (const event of events) {
    observation.eventSeen(event);
    cache.apply(event);
  }
  const server = healthServer({ report: () => health.report(), count: () => {} });
  return (await server({ method: "GET", path: "/healthz" })).status;
}

Deno.test("TestHealthzServer: 200 OK by default, as soon as the Node is seen", async () => {
  assertEquals(await healthzAfter([SEEN]), 200);
});

Deno.test("TestHealthzServer: a drained Node is seen though no sync succeeds", async () => {
  assertEquals(await healthzAfter([SEEN, DRAINED]), 503);
  assertEquals(await healthzAfter([SEEN, DRAINED, SEEN]), 200);
});

Deno.test("a Node that was never seen is not eligible, one that goes stays as it was", async () => {
  assertEquals(await healthzAfter([]), 503);
  assertEquals(await healthzAfter([NONE]), 503);
  assertEquals(await healthzAfter([SEEN, GONE]), 200);
  assertEquals(await healthzAfter([SEEN, NONE]), 200);
  assertEquals(await healthzAfter([SEEN, DRAINED, GONE]), 503);
});

Deno.test("manifests may do without a Node", async () => {
  assertEquals(await healthzAfter([NONE], { deleting: false }), 200);
  assertEquals(await healthzAfter([SEEN, DRAINED, GONE, NONE], { deleting: false }), 503);
});
