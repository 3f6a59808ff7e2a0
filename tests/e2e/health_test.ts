import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { ApiObject } from "../support/api_store.ts";
import { httpGet, type HttpResponse } from "../support/http.ts";
import { addAddress } from "../support/topology.ts";
import type { Signpost } from "../support/signpost.ts";
import {
  ADDRESSES,
  clusterObjects,
  type EndpointHost,
  type Manifest,
  service,
  slice,
} from "./cluster.ts";
import { HEALTH_PORT, METRICS_PORT, Stage } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("health");

const WEB = [service(ADDRESSES[4]), slice(ADDRESSES[4], ["local1"])];

test("the health and metrics servers answer as kube-proxy's do", async () => {
  await using stage = await Stage.create({ objects: WEB });
  await using _signpost = await stage.startSynced();
  const healthz = await stage.get("/healthz", HEALTH_PORT);
  assertEquals(healthz.status, 200);
  assertEquals(healthz.headers.get("content-type"), "application/json");
  const { nodeEligible, healthy, status, lastUpdated, currentTime } = JSON.parse(healthz.body);
  assertEquals([nodeEligible, healthy, lastUpdated], [true, true, currentTime]);
  assertEquals(Object.keys(status), ["IPv4", "IPv6"]);
  const livez = await stage.get("/livez", HEALTH_PORT);
  assertEquals([livez.status, "nodeEligible" in JSON.parse(livez.body)], [200, false]);
  assertEquals((await stage.get("/nothing", HEALTH_PORT)).status, 404);

  const metrics = await stage.get("/metrics", METRICS_PORT);
  assertEquals(metrics.status, 200);
  for (
    const line of [
      /^kubeproxy_sync_full_proxy_rules_duration_seconds_count\{ip_family="IPv4"\} 1$/m,
      /^kubeproxy_sync_proxy_rules_service_changes_total [1-9]/m,
      /^rest_client_requests_total\{code="200",host="127.0.0.1:\d+",method="GET"\} [1-9]/m,
      /^process_resident_memory_bytes \d{7}/m,
      /^signpost_watch_connected\{kind="Service"\} 1$/m,
    ]
  ) assertMatch(metrics.body, line);
  const mode = await stage.get("/proxyMode", METRICS_PORT);
  assertEquals([mode.status, mode.body], [200, "nftables"]);
  const configz = JSON.parse((await stage.get("/configz", METRICS_PORT)).body);
  assertEquals(configz["kubeproxy.config.k8s.io"].hostnameOverride, "node1");
  assertEquals(configz["kubeproxy.config.k8s.io"].mode, "nftables");
  assertEquals(configz["kubeproxy.config.k8s.io"].nodePortAddresses, ["primary"]);
  assertEquals(configz["kubeproxy.config.k8s.io"].nftables.minSyncPeriod, "50ms");
  assertEquals(configz.signpost, { minSyncPeriod: "50ms" });
});

test("before the first sync the daemon is starting, then it is ready", async () => {
  await using stage = await Stage.create({ objects: WEB });
  stage.api.faults.add({ type: "stall", kind: "EndpointSlice", count: 1000 });
  await using signpost = stage.start(stage.socket);
  const status = async () => {
    const { code, stdout } = await stage.ask("status");
    return [code, stdout.split("\n")[0]?.replace(/^signpost \S+ on /, "")];
  };
  const readiness = () => stage.get("/readyz", HEALTH_PORT).then(({ status }) => status);
  await signpost.until("the health server", readiness);
  assertEquals(await readiness(), 503);
  assertEquals(await status(), [1, "node1: starting: no rules are written yet"]);
  stage.api.faults.clear();
  await stage.api.restart();
  await signpost.until("readiness", async () => await readiness() === 200);
  assertEquals(await status(), [0, "node1: healthy"]);
});

for (const mode of ["nftables", "iptables"] as const) {
  test(`${mode}: an adaptive min sync period writes changes by default`, async () => {
    await using stage = await Stage.create({
      objects: WEB,
      config: { mode, nftables: { minSyncPeriod: "0s" }, iptables: { minSyncPeriod: "0s" } },
    });
    await using signpost = stage.start();
    const reaches = (host: EndpointHost) =>
      stage.flowsBecome(signpost, [{ from: "pod", to: ADDRESSES[4].clusterIP, reaches: [host] }]);
    await reaches("local1");
    const configz = JSON.parse((await stage.get("/configz", METRICS_PORT)).body);
    assertEquals(configz["kubeproxy.config.k8s.io"][mode].minSyncPeriod, "0s");
    assertEquals(configz.signpost, { minSyncPeriod: "adaptive" });
    stage.apply(slice(ADDRESSES[4], ["local2"]));
    await reaches("local2");
    const statusz = await stage.get("/statusz", METRICS_PORT);
    assertMatch(statusz.body, /^minSyncPeriod: adaptive$/m);
    assertMatch(statusz.body, /^syncPauseSeconds: 0?\.\d+$/m);
  });
}

test("the servers listen at the configured addresses, IPv6 too", async () => {
  await using stage = await Stage.create({
    config: { healthzBindAddress: "[::]:20256", metricsBindAddress: "[::1]:20249" },
  });
  await using _signpost = await stage.startSynced();
  assertEquals((await stage.get("/livez", 20256, "::1")).status, 200);
  const fromOutside = { from: "client", address: ADDRESSES[6].node, port: 20256, path: "/livez" };
  assertEquals((await httpGet(stage.network, fromOutside)).status, 200);
  assertEquals((await stage.get("/proxyMode", 20249, "::1")).body, "nftables");
  await assertRejects(() => stage.get("/livez", HEALTH_PORT), Error, "ECONNREFUSED");
});

test("while the node is being deleted /healthz fails and /livez does not", async (test) => {
  await using stage = await Stage.create({ objects: WEB });
  await using signpost = await stage.startSynced();
  const [node] = clusterObjects(ADDRESSES[4]) as unknown as [ApiObject];
  const taint = { key: "ToBeDeletedByClusterAutoscaler", value: "1", effect: "NoSchedule" };
  const deletions = {
    "the autoscaler's taint": { ...node, spec: { ...node["spec"] as object, taints: [taint] } },
    "a deletionTimestamp": {
      ...node,
      metadata: { ...node.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    },
  };
  for (const [what, deleting] of Object.entries(deletions)) {
    await test.step(what, async () => {
      stage.api.store.put(deleting);
      await healthBecomes(stage, signpost, { status: 503, nodeEligible: false });
      assertEquals((await stage.get("/livez", HEALTH_PORT)).status, 200);
      stage.api.store.put(node);
      await healthBecomes(stage, signpost, { status: 200, nodeEligible: true });
    });
  }
  await test.step("a Node that is gone stays as it was seen last", async () => {
    for (
      const [last, status] of [[node, 200], [deletions["the autoscaler's taint"], 503]] as const
    ) {
      stage.api.store.put(last);
      await healthBecomes(stage, signpost, { status, nodeEligible: status === 200 });
      stage.remove("Node", "node1");
      // A Service that comes later is in the kernel: by then the Node's watch has been heard too.
      const name = `after-${status}`;
      const clusterIP = status === 200 ? "10.96.1.1" : "10.96.1.2";
      stage.apply(service(ADDRESSES[4], { name, spec: { clusterIP } }));
      await stage.flowsBecome(signpost, [{ from: "pod", to: clusterIP, reaches: "reject" }]);
      await healthBecomes(stage, signpost, { status, nodeEligible: status === 200 });
    }
  });
});

const [FOUR, SIX] = [ADDRESSES[4], ADDRESSES[6]];
const CHECK_PORT = 32_000;

/** A Service with a health-check node port. */
function balancer(spec: Manifest = {}): Manifest {
  const checked = { externalTrafficPolicy: "Local", healthCheckNodePort: CHECK_PORT };
  return service(FOUR, {
    spec: { type: "LoadBalancer", ...checked, ...spec },
    ingress: [{ ip: FOUR.loadBalancer }],
  });
}

const DUAL_STACK = { clusterIPs: [FOUR.clusterIP, SIX.clusterIP], ipFamilies: ["IPv4", "IPv6"] };

/** Asks a health-check node port as a load balancer does. */
function askCheck({ network }: Stage, address: string, port = CHECK_PORT): Promise<HttpResponse> {
  return httpGet(network, { from: "client", address, port, path: "/" });
}

test("health-check node ports follow the endpoints of their Services", async () => {
  const on = (...hosts: EndpointHost[]) => slice(FOUR, hosts);
  await using stage = await Stage.create({ objects: [balancer(), on("local1", "remote1")] });
  await using signpost = await stage.startSynced();
  const becomes = (status: number, localEndpoints: number, port = CHECK_PORT) =>
    signpost.until(`${status} with ${localEndpoints} local endpoints`, async () => {
      const answer = await askCheck(stage, FOUR.node, port);
      assertEquals(answer.status, status);
      assertEquals(JSON.parse(answer.body), {
        service: { namespace: "shop", name: "web" },
        localEndpoints,
        serviceProxyHealthy: true,
      });
      assertEquals(answer.headers.get("x-load-balancing-endpoint-weight"), String(localEndpoints));
      return true;
    });
  await becomes(200, 1);
  stage.apply(on("local1", "local2", "remote1"));
  await becomes(200, 2);
  stage.apply(on("remote1"));
  await becomes(503, 0);
  stage.apply(on("local2"));
  await becomes(200, 1);
  const next = CHECK_PORT + 1;
  stage.apply(balancer({ healthCheckNodePort: next }));
  await becomes(200, 1, next);
  await assertRejects(() => askCheck(stage, FOUR.node), Error, "ECONNREFUSED");
  stage.remove("Service", "shop/web");
  await signpost.until("a closed port", async () => {
    await assertRejects(() => askCheck(stage, FOUR.node, next), Error, "ECONNREFUSED");
    return true;
  });
});

test("health-check node ports count the endpoints of their family", async () => {
  await using stage = await Stage.create({
    objects: [
      balancer(DUAL_STACK),
      slice(FOUR, ["local1"]),
      slice(SIX, ["remote1"], { name: "web-6" }),
    ],
    // As most set it: nothing is said of IPv6, which takes node ports on all its addresses then.
    config: { nodePortAddresses: [FOUR.nodeSecondCIDR] },
  });
  await using signpost = await stage.startSynced();
  const answers = (address: string, status: number, localEndpoints: number) =>
    signpost.until(`${status} at ${address}`, async () => {
      const answer = await askCheck(stage, address);
      assertEquals([answer.status, JSON.parse(answer.body).localEndpoints], [
        status,
        localEndpoints,
      ]);
      return true;
    });
  await answers(FOUR.nodeSecond, 200, 1);
  await answers(SIX.node, 503, 0);
  await answers(SIX.nodeSecond, 503, 0);
  await assertRejects(() => askCheck(stage, FOUR.node), Error, "ECONNREFUSED");
  await assertRejects(() => stage.get("/", CHECK_PORT), Error, "ECONNREFUSED");
  stage.apply(slice(SIX, ["local1", "local2"], { name: "web-6" }));
  await answers(SIX.node, 200, 2);
  await answers(FOUR.nodeSecond, 200, 1);
});

test("health-check node ports follow the words of nodePortAddresses", async () => {
  await using stage = await Stage.create({
    objects: [balancer(DUAL_STACK), slice(FOUR, ["local1"])],
    config: { nodePortAddresses: ["primary", "localhost"] },
  });
  await using signpost = await stage.startSynced();
  const isServed = async () => (await askCheck(stage, FOUR.node)).status === 200;
  await signpost.until("an answer", isServed);
  assertEquals((await askCheck(stage, SIX.node)).status, 503);
  assertEquals((await stage.get("/", CHECK_PORT)).status, 200);
  assertEquals((await stage.get("/", CHECK_PORT, "::1")).status, 503);
  for (const { nodeSecond } of [FOUR, SIX]) {
    await assertRejects(() => askCheck(stage, nodeSecond), Error, "ECONNREFUSED");
  }
});

for (const mode of ["nftables", "iptables"] as const) {
  for (const nodePortAddresses of [["primary"], [FOUR.nodeSecondCIDR], []]) {
    const setting = nodePortAddresses.join() || "none";
    test(`health checks at the node's virtual IP, ${mode}, addresses ${setting}`, async () => {
      const address = FOUR.loadBalancer;
      const objects = [balancer(), slice(FOUR, ["local1"])];
      await using stage = await Stage.create({ objects, config: { mode, nodePortAddresses } });
      const answers = (signpost: Signpost) =>
        signpost.until("an answer at the load balancer's address", async () => {
          assertEquals((await askCheck(stage, address)).status, 200);
          return true;
        });
      const route = `local ${address} dev lo table local`;
      await stage.network.ip("node", [`route add ${route}`]);
      {
        await using signpost = stage.start();
        await answers(signpost);
      }
      await stage.network.ip("node", [`route del ${route}`, addAddress(address, "lo")]);
      await using signpost = stage.start();
      await answers(signpost);
    });
  }
}

/** The Event of the Node with this reason, once the API server has it. */
function nodeEvent(stage: Stage, reason: string) {
  const event = stage.api.store.list("Event").map(({ object }) => object)
    .find((each) => each["reason"] === reason);
  if (!event) return undefined;
  const { regarding, type, action, note } = event as ApiObject & {
    regarding: Record<string, string>;
    note: string;
  };
  assertEquals(regarding, { apiVersion: "v1", kind: "Node", name: "node1", uid: "node1" });
  assertEquals(action, "StartKubeProxy");
  return { type, note };
}

test("the start becomes an Event on the Node, as kube-proxy sends it", async (test) => {
  await using stage = await Stage.create({ objects: WEB });
  stage.network.serve("node", { protocol: "tcp", port: METRICS_PORT, address: "127.0.0.1" });
  await test.step("the daemon goes on", async () => {
    await using signpost = await stage.startSynced();
    const starting = await signpost.until("the start", () => nodeEvent(stage, "Starting"));
    assertEquals([starting.type, starting.note], ["Normal", "signpost 0.1.0 in nftables mode"]);
    const failed = await signpost.until(
      "the failure",
      () => nodeEvent(stage, "FailedToStartMetricServer"),
    );
    assertEquals(failed.type, "Warning");
    assertMatch(failed.note, /^metrics server: cannot listen on 127\.0\.0\.1:10249: /);
  });
  await test.step("the daemon ends, but not before it has said why", async () => {
    await stage.configure({
      bindAddressHardFail: true,
      healthzBindAddress: `127.0.0.1:${METRICS_PORT}`,
      metricsBindAddress: "",
    });
    await using signpost = stage.start();
    assertEquals((await signpost.status).code, 1);
    const failed = nodeEvent(stage, "FailedToStartProxierHealthcheck");
    assertMatch(failed?.note ?? "", /^healthz server: cannot listen on 127\.0\.0\.1:10249: /);
  });
});

/** Two Services with one external IP, and one with a port that there is not. */
const TROUBLE = [
  service(ADDRESSES[4], { spec: { externalIPs: ["192.0.2.30"] } }),
  service(ADDRESSES[4], {
    name: "younger",
    created: "2025-01-01T00:00:00Z",
    spec: { clusterIP: "10.96.0.20", externalIPs: ["192.0.2.30"] },
  }),
  service(ADDRESSES[4], {
    name: "broken",
    spec: { clusterIP: "10.96.0.30", ports: [{ name: "http", protocol: "TCP", port: 70_000 }] },
  }),
];

test("conflicts and refused objects become Events on their Services", async () => {
  await using stage = await Stage.create({ objects: [...TROUBLE, ...WEB.slice(1)] });
  await using signpost = await stage.startSynced();
  const events = await signpost.until("both Events", () => {
    const all = stage.api.store.list("Event").map(({ object }) => object);
    const reasons = new Set(all.map((event) => event["reason"]));
    return reasons.has("Conflict") && reasons.has("Refused") && all;
  });
  const find = (reason: string) => {
    const event = events.find((each) => each["reason"] === reason);
    assert(event);
    return event as ApiObject & { regarding: Record<string, string>; note: string };
  };
  const { regarding, note } = find("Conflict");
  assertEquals([regarding.kind, regarding.namespace, regarding.name], [
    "Service",
    "shop",
    "younger",
  ]);
  assertMatch(note, /192\.0\.2\.30.*shop\/web/);
  const refused = find("Refused");
  assertEquals(refused.regarding.name, "broken");
  assertEquals([refused["type"], refused["reportingInstance"]], ["Warning", "signpost-node1"]);
  await stage.flowsBecome(signpost, [
    { from: "pod", to: ADDRESSES[4].clusterIP, reaches: ["local1"] },
  ]);
});

test("a missing right to create Events gives one line", async () => {
  await using stage = await Stage.create({ objects: [...TROUBLE, ...WEB.slice(1)] });
  stage.api.faults.add({ type: "status", status: 403, kind: "Event", on: "post", count: 1000 });
  await using signpost = await stage.startSynced();
  await signpost.waitForLog(/INFO cannot send Events reason=.*403/);
  stage.apply(slice(ADDRESSES[4], ["local2"]));
  await stage.flowsBecome(signpost, [
    { from: "pod", to: ADDRESSES[4].clusterIP, reaches: ["local2"] },
  ]);
  assertEquals(signpost.log.match(/cannot send Events/g)?.length, 1);
  assertEquals(stage.api.store.list("Event").length, 0);
});

async function healthBecomes(
  stage: Stage,
  signpost: Signpost,
  expected: { readonly status: number; readonly nodeEligible: boolean },
): Promise<void> {
  await signpost.until(`/healthz ${expected.status}`, async () => {
    const { status, body } = await stage.get("/healthz", HEALTH_PORT);
    assertEquals({ status, nodeEligible: JSON.parse(body).nodeEligible }, expected);
    return true;
  });
}
