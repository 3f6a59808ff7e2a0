import { assertEquals } from "@std/assert";
import { ObjectCache } from "../../../lib/cache/cache.ts";
import { History } from "../../../lib/daemon/reports/history.ts";
import type { ObjectEvent } from "../../../lib/model/cluster/objects.ts";
import type { DesiredServicePort } from "../../../lib/model/kernel/desired.ts";
import { servicePort } from "../../observe/page/contents.ts";
import { ManualClock } from "../../support/clock_and_log.ts";
import { destination, modelEndpoint, modelSlice } from "../../support/cluster.ts";

const START = Date.parse("2026-01-02T03:04:05.000Z");

/** Service ports with these endpoints. */
function web(...addresses: readonly string[]): DesiredServicePort[] {
  const clusterEndpoints = addresses.map((address) => destination(address, { local: true }));
  return [servicePort({ clusterEndpoints, localEndpoints: [] })];
}

/** The event of a slice whose endpoints are ready, or not. */
function slice(endpoints: Readonly<Record<string, boolean>>): ObjectEvent {
  const object = modelSlice({
    namespace: "shop",
    endpoints: Object.entries(endpoints).map(([address, ready]) =>
      modelEndpoint(address, { ready, serving: ready })
    ),
  });
  return { type: "upsert", kind: "EndpointSlice", key: "shop/web-1", object };
}

/** A history whose events and syncs the test decides. */
class Daemon {
  readonly clock = new ManualClock(START);
  readonly cache = new ObjectCache();
  readonly history = new History(this);
  #ports: readonly DesiredServicePort[] = [];

  see(event: ObjectEvent): void {
    this.history.seen(event);
    this.cache.apply(event);
  }

  sync(
    after: readonly DesiredServicePort[],
    { isFailure = false, service = "shop/web" } = {},
  ): void {
    this.history.started();
    const services = new Map([[service, { before: this.#ports, after }]]);
    this.history.follow({
      change: { node: undefined, services },
      applied: isFailure ? undefined : "partial",
    });
    if (!isFailure) this.#ports = after;
    this.cache.takeDirty();
  }

  get last(): string | undefined {
    const [entry] = this.history.changes("shop/web");
    return entry && `${entry.what} (${entry.milliseconds})`;
  }
}

Deno.test("a change is remembered with its time until the kernel had it", async () => {
  const daemon = new Daemon();
  daemon.sync(web("10.244.0.11"));
  assertEquals(daemon.last, undefined);
  daemon.see(slice({ "10.244.0.11": true, "10.244.0.12": true }));
  await daemon.clock.advance(30);
  daemon.see(slice({ "10.244.0.11": true, "10.244.0.12": true, "10.244.0.13": false }));
  await daemon.clock.advance(20);
  daemon.sync(web("10.244.0.11", "10.244.0.12"));
  assertEquals(daemon.history.changes(), [{
    at: "2026-01-02T03:04:05.050Z",
    service: "shop/web",
    what: "endpoint 10.244.0.12:8080 added",
    milliseconds: 50,
  }]);
});

Deno.test("removed endpoints differ from those that are not ready", () => {
  const daemon = new Daemon();
  daemon.sync(web("10.244.0.11", "10.244.0.12", "10.244.0.13"));
  daemon.see(slice({ "10.244.0.11": true, "10.244.0.12": false }));
  daemon.sync(web("10.244.0.11"));
  assertEquals(
    daemon.last,
    "endpoint 10.244.0.12:8080 not ready, endpoint 10.244.0.13:8080 gone (0)",
  );
  daemon.sync([{ ...web("10.244.0.11")[0]!, port: 81 }]);
  assertEquals(daemon.last, "Service changed (null)");
  daemon.sync([]);
  assertEquals(daemon.last, "Service removed (null)");
  daemon.sync(web(...Array.from({ length: 9 }, (_, index) => `10.244.0.${index}`)));
  assertEquals(daemon.last, "Service added (null)");
  daemon.sync(web());
  assertEquals(
    daemon.last,
    "endpoints 10.244.0.0:8080, 10.244.0.1:8080, 10.244.0.2:8080, 10.244.0.3:8080, 10.244.0.4:8080 " +
      "and 4 more gone (null)",
  );
});

Deno.test("one of 10,000 endpoints that goes is named", () => {
  const daemon = new Daemon();
  const all = Array.from({ length: 10_000 }, (_, index) => `10.244.${index >> 8}.${index & 255}`);
  daemon.sync(web(...all));
  // The last endpoint takes the slot of the one that goes.
  const [moved = "", ...others] = all.toReversed();
  const after = others.reverse().map((each, index) => index === 5_000 ? moved : each);
  daemon.sync(web(...after));
  assertEquals(daemon.last, "endpoint 10.244.19.136:8080 gone (null)");
  daemon.sync([...web(...after), ...web("10.244.0.1")]);
  assertEquals(daemon.last, "Service changed (null)");
});

Deno.test("after a failed sync, the time counts from the first event", async () => {
  const daemon = new Daemon();
  daemon.sync(web("10.244.0.11"));
  daemon.see(slice({ "10.244.0.12": true }));
  daemon.sync(web("10.244.0.12"), { isFailure: true });
  await daemon.clock.advance(2_000);
  daemon.sync(web("10.244.0.12"));
  assertEquals(
    daemon.last,
    "endpoint 10.244.0.12:8080 added, endpoint 10.244.0.11:8080 gone (2000)",
  );
});

Deno.test("20 changes of a Service and 2,000 in all are kept", () => {
  const daemon = new Daemon();
  daemon.sync([]);
  for (let index = 0; index < 50; index++) daemon.sync(web(`10.244.0.${index}`));
  assertEquals(daemon.history.changes("shop/web").length, 20);
  assertEquals(daemon.history.changes()[0]?.what.includes("10.244.0.49:8080 added"), true);
  const services = new Map(
    Array.from({ length: 5_000 }, (_, index) => [`shop/s${index}`, { before: [], after: web() }]),
  );
  daemon.history.follow({ change: { node: undefined, services }, applied: "partial" });
  assertEquals(daemon.history.changes().length, 2_000);
  assertEquals(daemon.history.changes()[0]?.service, "shop/s4999");
});
