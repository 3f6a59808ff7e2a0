import { History } from "../../../lib/daemon/reports/history.ts";
import { assertEquals } from "@std/assert";
import { ObjectCache } from "../../../lib/cache/cache.ts";
import { Observation } from "../../../lib/daemon/reports/observation.ts";
import type { EventReport } from "../../../lib/observe/events.ts";
import type { Node, ObjectEvent } from "../../../lib/model/cluster/objects.ts";
import { healthServer } from "../../../lib/observe/endpoints.ts";
import { ProxyHealth } from "../../../lib/observe/health.ts";
import { Metrics } from "../../../lib/observe/metrics/metrics.ts";
import { ManualClock, START } from "../../support/clock_and_log.ts";
import { NO_PROGRESS, NO_WORK, WATCHES } from "../../observe/support/work.ts";
import { backendOf } from "../../support/modes.ts";
import { modelNode, modelSlice } from "../../support/cluster.ts";

const NODE = modelNode({ uid: "u1", addresses: ["192.0.2.10"] });

/** Events of the Node, as they come in; none is followed by a sync. */
const SEEN: ObjectEvent = upsert(NODE);
const DRAINED: ObjectEvent = upsert({ ...NODE, deleting: true });
const GONE: ObjectEvent = { type: "delete", kind: "Node", key: "node-1" };
const NONE: ObjectEvent = { type: "replace", kind: "Node", changes: new Map() };

function upsert(object: Node): ObjectEvent {
  return { type: "upsert", kind: "Node", key: "node-1", object };
}

/** A slice whose endpoints changed at this time, milliseconds since the epoch. */
function slice(name: string, lastChangeTriggerTime: number): ObjectEvent {
  const object = modelSlice({ namespace: "shop", name, lastChangeTriggerTime });
  return { type: "upsert", kind: "EndpointSlice", key: `shop/${name}`, object };
}

/** An observation with its cache, its health, and the Events that it reports. */
function observe({ hasApi }: { readonly hasApi: boolean } = { hasApi: true }) {
  const clock = new ManualClock(START);
  const cache = new ObjectCache();
  const events: EventReport[] = [];
  const metrics = new Metrics({ backend: backendOf("nftables").metrics, families: [4, 6] });
  const observation = new Observation({
    nodeName: "node-1",
    clock,
    needsNode: hasApi,
    cache,
    metrics,
    report: (event) => events.push(event),
    history: new History({ cache, clock }),
    watchesChanged: () => {},
  });
  metrics.read({
    ...NO_WORK,
    observed: observation,
  });
  const health = new ProxyHealth({
    clock,
    timeout: 60_000,
    isEligible: () => observation.isEligible,
    sync: () => NO_PROGRESS,
  });
  return { cache, clock, health, metrics, observation, events };
}

/** Returns the answer of `/healthz` after these events. */
async function healthzAfter(
  events: readonly ObjectEvent[],
  source?: { readonly hasApi: boolean },
): Promise<number> {
  const { cache, health, observation } = observe(source);
  for (const event of events) {
    observation.seen(event);
    cache.apply(event);
  }
  const server = healthServer({
    pid: 1,
    health,
    findings: () => [],
    metrics: { healthAnswered: () => {} },
  });
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
  assertEquals(await healthzAfter([NONE], { hasApi: false }), 200);
  assertEquals(await healthzAfter([SEEN, DRAINED, GONE, NONE], { hasApi: false }), 503);
});

Deno.test("a Service that needs what the kernel refuses gets a Warning Event", () => {
  const { observation, events } = observe();
  observation.unsupported({
    service: "shop/web",
    feature: "source-ranges",
    refusal: 'nft 1.0.6 on kernel 6.12.117 refuses: "Error: no"',
  });
  assertEquals(events, [{
    regarding: { kind: "Service", namespace: "shop", name: "web", uid: "" },
    type: "Warning",
    reason: "NotSupported",
    action: "Apply",
    note:
      "node node-1 refuses this Service: its load-balancer IPs get no rules, since its source " +
      "ranges (loadBalancerSourceRanges) cannot be held: nft 1.0.6 on kernel 6.12.117 refuses: " +
      '"Error: no"',
  }]);
});

/** A sync that changed nothing. */
const SYNCED = { kind: "full", text: "", bytes: 0, operations: 0 } as const;

Deno.test("the sync that follows a change measures its latency", async () => {
  const { clock, metrics, observation } = observe();
  const name = "kubeproxy_network_programming_duration_seconds_count";
  const measured = async () => {
    const { body } = await metrics.render();
    return [...body.matchAll(new RegExp(`^${name}{[^}]*} (\\d+)$`, "gm"))].map(([, n]) =>
      Number(n)
    );
  };
  observation.seen(slice("before", clock.now() - 1));
  for (let i = 0; i < 3; i++) observation.seen(slice(`s${i}`, clock.now() + 1));
  observation.started();
  observation.synced(SYNCED, 0.1);
  assertEquals(await measured(), [3, 3]);
  for (let i = 0; i < 12_000; i++) observation.seen(slice(`s${i % 100}`, clock.now() + 1));
  observation.started();
  observation.synced(SYNCED, 0.1);
  assertEquals(await measured(), [10_003, 10_003]);
});

Deno.test("a change that comes during a sync waits for the next one", async () => {
  const { clock, metrics, observation } = observe();
  const read = async (name: string) => {
    const { body } = await metrics.render();
    return Number(new RegExp(`^${name}(?:{[^}]*})? (\\d+)$`, "m").exec(body)?.[1] ?? 0);
  };
  const state = async () => [
    await read("kubeproxy_network_programming_duration_seconds_count"),
    await read("kubeproxy_sync_proxy_rules_endpoint_changes_pending"),
  ];
  observation.seen(slice("a", clock.now() + 1));
  // This one fails.
  observation.started();
  observation.seen(slice("b", clock.now() + 1));
  observation.started();
  observation.seen(slice("c", clock.now() + 1));
  assertEquals(await state(), [0, 3]);
  observation.synced(SYNCED, 0.1);
  assertEquals(await state(), [2, 1]);
  observation.started();
  observation.synced(SYNCED, 0.1);
  assertEquals(await state(), [3, 0]);
});

const WATCH = WATCHES.get("Service")!;

Deno.test("a watch that has failed for a minute is a failure", () => {
  const { clock, observation } = observe();
  const failures = () => observation.watchFailures.map(({ message }) => message);
  const failing = {
    ...WATCH,
    state: "backoff",
    lastError: "refused",
    failingSince: START,
  } as const;
  observation.watchChanged(failing);
  clock.pass(59_999);
  assertEquals(failures(), []);
  clock.pass(1);
  assertEquals(failures(), ["refused"]);
  observation.watchChanged({ ...failing, state: "connecting" });
  assertEquals(failures(), ["refused"]);
  observation.watchChanged({ ...failing, state: "watching" });
  assertEquals(failures(), []);
});

Deno.test("an optional kind that may not be read is reported at once, as such", () => {
  const { observation } = observe();
  const absent = { ...WATCH, kind: "ServiceCIDR", state: "absent" } as const;
  observation.watchChanged({ ...absent, lastError: "403 forbidden", isRefused: true });
  assertEquals(observation.watchFailures.map(({ isOptional }) => isOptional), [true]);
  observation.watchChanged(absent);
  assertEquals(observation.watchFailures, []);
});
