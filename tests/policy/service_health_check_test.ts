import { assertEquals } from "@std/assert";
import type { ApiObject } from "../support/api_store.ts";
import { NODE_NAME, Pipeline } from "../support/pipeline.ts";
import { service, slice } from "./objects.ts";

const CLUSTER_IPS = ["10.96.0.1", "fd00:10:96::1"];
const LOCAL = {
  type: "LoadBalancer",
  externalTrafficPolicy: "Local",
  healthCheckNodePort: 32000,
  clusterIPs: CLUSTER_IPS,
};

/** The number of local endpoints by family of the Service `default/web`. */
function countsOf(objects: readonly ApiObject[]): unknown {
  const pipeline = new Pipeline();
  pipeline.load(objects);
  const check = pipeline.desired.healthChecks.get("default/web");
  return check && Object.fromEntries(check.localEndpoints);
}

function withConditions(address: string, conditions: object): object {
  return { addresses: [address], nodeName: NODE_NAME, conditions };
}

const READY = { ready: true };
const TERMINATING = { ready: false, serving: true, terminating: true };

Deno.test("the health check counts distinct addresses of ready endpoints on this node", () => {
  const ports = [{ port: 8080 }, { name: "other", port: 9090 }];
  const objects = [
    service("web", { ...LOCAL, clusterIPs: CLUSTER_IPS.slice(0, 1) }),
    slice("web", [`10.0.0.1@${NODE_NAME}`, `10.0.0.2@${NODE_NAME}`, "10.0.0.3@node-2"], { ports }),
    slice("web", [], {
      suffix: "2",
      endpoints: [
        withConditions("10.0.0.1", READY),
        withConditions("10.0.0.5", TERMINATING),
        { addresses: ["10.0.0.4"] },
      ],
    }),
  ];
  assertEquals(countsOf(objects), { 4: 2 });
  assertEquals(countsOf(objects.slice(0, 1)), { 4: 0 });
});

Deno.test("each family counts its own endpoints", () => {
  const [four, six] = [
    slice("web", [`10.0.0.1@${NODE_NAME}`]),
    slice("web", [`fd00::1@${NODE_NAME}`], { suffix: "6" }),
  ];
  assertEquals(countsOf([service("web", LOCAL), four, six]), { 4: 1, 6: 1 });
  assertEquals(countsOf([service("web", LOCAL), six]), { 4: 0, 6: 1 });
});

Deno.test("of entries with one address that one counts which the rules use", () => {
  for (const conditions of [[READY, TERMINATING], [TERMINATING, READY]]) {
    const endpoints = conditions.map((each) => withConditions("10.0.0.1", each));
    assertEquals(countsOf([service("web", LOCAL), slice("web", [], { endpoints })]), {
      4: 1,
      6: 0,
    });
  }
  const elsewhere = { addresses: ["10.0.0.1"], nodeName: "node-2", conditions: READY };
  const endpoints = [withConditions("10.0.0.1", TERMINATING), elsewhere];
  assertEquals(countsOf([service("web", LOCAL), slice("web", [], { endpoints })]), { 4: 0, 6: 0 });
});

Deno.test("a Service without a health-check node port, or that goes, has no check", () => {
  assertEquals(countsOf([service("web"), slice("web", [`10.0.0.1@${NODE_NAME}`])]), undefined);
  const pipeline = new Pipeline();
  for (const [objects, size] of [[[service("web", LOCAL)], 1], [[], 0]] as const) {
    pipeline.load(objects);
    assertEquals(pipeline.desired.healthChecks.size, size);
  }
});
