import { assertEquals, assertRejects } from "@std/assert";
import type { Fault } from "../support/api_faults.ts";
import { ADDRESSES, type EndpointHost, PORT, service, slice } from "./cluster.ts";
import { both, bothFlows, METRICS_PORT, Stage, syncs } from "./stage.ts";
import { SteadyClient } from "./steady.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("changes in the API");

/** Services `shop/web4` and `shop/web6`. */
const WEB = both((a) => [service(a, { name: `web${a.family}` })]);
const on = (host: EndpointHost) => both((a) => [slice(a, [host], { service: `web${a.family}` })]);
const reaches = (hosts: readonly EndpointHost[] | "reject" | "drop") =>
  bothFlows((a) => [{ from: "pod", to: a.clusterIP, reaches: hosts }]);
const STEADY = { from: "pod", address: ADDRESSES[4].clusterIP, port: PORT };

test("the build's version is that of the API server", async () => {
  await using stage = await Stage.create({ api: { gitVersion: "v1.33.4-eks-1a2b3c4" } });
  await using signpost = await stage.startSynced();
  await signpost.until("the version", async () => {
    const { body } = await stage.get("/metrics", METRICS_PORT);
    return body.includes('git_version="v1.33.4+signpost.');
  });
});

test("a Service is served until it is deleted", async () => {
  await using stage = await Stage.create();
  await using signpost = await stage.startSynced();
  await stage.flowsBecome(signpost, reaches("drop"));
  stage.apply(...WEB);
  await stage.flowsBecome(signpost, reaches("reject"));
  stage.apply(...on("local2"));
  await stage.flowsBecome(signpost, reaches(["local2"]));
  stage.remove("Service", "shop/web4");
  stage.remove("Service", "shop/web6");
  await stage.flowsBecome(signpost, reaches("drop"));
});

test("nothing is applied before every watch has delivered its first state", async () => {
  await using stage = await Stage.create({ objects: [...WEB, ...on("local1")] });
  stage.api.faults.add({ type: "stall", kind: "EndpointSlice", count: 1000 });
  await using signpost = stage.start();
  await signpost.until("the other watches", async () => {
    const { body } = await stage.get("/metrics", METRICS_PORT);
    return ["Service", "Node", "ServiceCIDR"]
      .every((kind) => body.includes(`signpost_watch_connected{kind="${kind}"} 1`));
  });
  await assertRejects(() => stage.table(), Error, "No such file");
  stage.api.faults.clear();
  await stage.api.restart();
  await stage.flowsBecome(signpost, reaches(["local1"]));
});

test("410 lists again without removing rules", async () => {
  const extra = service(ADDRESSES[4], { name: "extra", spec: { clusterIP: "10.96.0.77" } });
  await using stage = await Stage.create({ objects: [...WEB, extra, ...on("local1")] });
  await using signpost = await stage.startSynced();
  await stage.flowsBecome(signpost, [{ from: "pod", to: "10.96.0.77", reaches: "reject" }]);
  const steady = new SteadyClient(stage.network, STEADY);
  stage.api.store.delete("Service", "shop/extra");
  stage.apply(...on("remote1"));
  stage.api.compact();
  await stage.flowsBecome(signpost, [
    ...reaches(["remote1"]),
    { from: "pod", to: "10.96.0.77", reaches: "drop" },
  ]);
  await steady.stop();
  assertEquals(syncs(signpost, "full"), 1);
});

test("packets follow the objects of a restored etcd", async () => {
  await using stage = await Stage.create({ objects: [...WEB, ...on("local1")] });
  await using signpost = await stage.startSynced();
  const { api } = stage;
  const saved = api.store.save();
  stage.apply(...on("local2"));
  await stage.flowsBecome(signpost, reaches(["local2"]));
  await api.stop();
  await signpost.until("the loss is seen", () => signpost.log.includes("rules stay"));
  api.store.restore(saved);
  for (let i = 0; i < 20; i++) api.store.put({ kind: "Node", metadata: { name: `other${i}` } });
  await api.start();
  await stage.flowsBecome(signpost, reaches(["local1"]));
});

test("the rules stay while the API server is away", async () => {
  await using stage = await Stage.create({ objects: [...WEB, ...on("local1")] });
  await using signpost = await stage.startSynced();
  const steady = new SteadyClient(stage.network, STEADY);
  await stage.api.stop();
  await signpost.until("lost watches", async () => {
    const { body } = await stage.get("/metrics", METRICS_PORT);
    return body.includes(`signpost_watch_connected{kind="Service"} 0`);
  });
  stage.apply(...on("remote1"));
  await stage.flowsBecome(signpost, reaches(["local1"]));
  await stage.api.start();
  await stage.flowsBecome(signpost, reaches(["remote1"]));
  await steady.stop();
  assertEquals(syncs(signpost, "full"), 1);
});

const KINDS = ["Service", "EndpointSlice", "Node", "ServiceCIDR"] as const;

const FAULTS: readonly (readonly [string, Fault])[] = [
  ["answers 401", { type: "status", status: 401 }],
  ["answers 403", { type: "status", status: 403 }],
  ["answers 429", { type: "status", status: 429, retryAfter: 1 }],
  ["answers 500", { type: "status", status: 500 }],
  ["sends garbage", { type: "garbage" }],
  ["sends half a line", { type: "halfLine" }],
  ["cuts connections", { type: "cut" }],
  ["closes streams at once", { type: "close" }],
  ["sends an ERROR event of 500", { type: "errorEvent", status: 500 }],
  ["sends an ERROR event of 410", { type: "errorEvent", status: 410 }],
];

test("an API server that fails in any way leaves the rules as they are", async (test) => {
  await using stage = await Stage.create({ objects: [...WEB, ...on("local1")] });
  await using signpost = await stage.startSynced();
  const steady = new SteadyClient(stage.network, STEADY);
  for (const [index, [what, fault]] of FAULTS.entries()) {
    await test.step(`it ${what}`, async () => {
      const [before, after] = index % 2 === 0
        ? ["local1", "remote1"] as const
        : ["remote1", "local1"] as const;
      // A bookmark is progress, after which the watches do not wait longer each time.
      await signpost.until("all watches", () => stage.api.openStreams === KINDS.length);
      stage.api.bookmark();
      for (const kind of KINDS) stage.api.faults.add({ ...fault, kind, count: 2 });
      stage.api.dropStreams({ end: true });
      await signpost.until("all faults", () => stage.api.faults.left === 0);
      await stage.flowsBecome(signpost, reaches([before]));
      stage.apply(...on(after));
      await stage.flowsBecome(signpost, reaches([after]));
    });
  }
  await steady.stop();
  assertEquals(syncs(signpost, "full"), 1);
});
