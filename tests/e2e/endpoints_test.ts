import { assertLess } from "@std/assert";
import {
  ADDRESSES,
  clusterObjects,
  configuration,
  service,
  slice,
  slicePorts,
  TARGET_PORT2,
} from "./cluster.ts";
import { applyOnce, createCluster, testCase } from "./case.ts";
import { nodePortFlow } from "./flow.ts";

const DYING = { ready: false, serving: true, terminating: true };
const DEAD = { ready: false, serving: false, terminating: true };
const NOT_READY = { ready: false, serving: false, terminating: false };

testCase("endpoints that are not ready get no connections", (a) => ({
  objects: [
    service(a),
    slice(a, ["local1", { host: "remote1", conditions: NOT_READY }, {
      host: "remote2",
      conditions: DYING,
    }]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1"] }],
}));

testCase("missing conditions mean ready", (a) => ({
  objects: [
    service(a),
    slice(a, [
      { host: "local1", conditions: { ready: undefined } },
      { host: "remote1", conditions: { ready: true, serving: undefined, terminating: undefined } },
    ]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] }],
}));

testCase("terminating endpoints that still serve are used where no ready one is left", (a) => ({
  objects: [
    service(a),
    slice(a, [
      { host: "local1", conditions: DYING },
      { host: "remote1", conditions: DYING },
      { host: "remote2", conditions: DEAD },
      { host: "local2", conditions: NOT_READY },
    ]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] }],
}));

testCase("terminating endpoints are a fallback for the local and the cluster set apart", (a) => ({
  objects: [
    service(a, {
      spec: { type: "LoadBalancer", externalTrafficPolicy: "Local" },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, [{ host: "local1", conditions: DYING }, "remote1"]),
  ],
  flows: [
    { from: "client", to: a.loadBalancer, reaches: ["local1"] },
    nodePortFlow(a, { from: "client", reaches: ["local1"] }),
    { from: "pod", to: a.loadBalancer, reaches: ["remote1"] },
    { from: "pod", to: a.clusterIP, reaches: ["remote1"] },
  ],
}));

testCase("endpoints that neither are ready nor serve get no traffic", (a) => ({
  objects: [
    service(a),
    slice(a, [{ host: "local1", conditions: NOT_READY }, { host: "remote1", conditions: DEAD }]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: "reject" }],
}));

testCase(
  "all slices of a Service count, whatever number its named target port has in each",
  (a) => ({
    objects: [
      service(a, {
        spec: { ports: [{ name: "web", protocol: "TCP", port: 80, targetPort: "http" }] },
      }),
      slice(a, ["local1"], {
        name: "web-1",
        ports: [{ name: "web", protocol: "TCP", port: TARGET_PORT2 }],
      }),
      slice(a, ["local1"], { name: "web-2", ports: slicePorts() }),
      slice(a, ["remote1"], {
        name: "web-3",
        ports: [{ name: "web", protocol: "TCP", port: TARGET_PORT2 }],
      }),
    ],
    flows: [{
      from: "pod",
      to: a.clusterIP,
      protocols: ["tcp"],
      reaches: ["local1", "remote1"],
      targetPort: TARGET_PORT2,
    }],
  }),
);

testCase("the slices of other Services do not count", (a) => ({
  objects: [
    service(a),
    slice(a, ["local1"]),
    slice(a, ["remote1"], { service: "web-2" }),
    slice(a, ["remote2"], { namespace: "other" }),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1"] }],
}));

testCase("an endpoint without a nodeName is not local", (a) => ({
  objects: [
    service(a, {
      spec: { type: "LoadBalancer", externalTrafficPolicy: "Local" },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, [{ host: "local1", hasNode: false }]),
  ],
  flows: [
    { from: "pod", to: a.clusterIP, reaches: ["local1"] },
    { from: "local1", to: a.clusterIP, reaches: ["local1"], masqueraded: true },
    { from: "client", to: a.loadBalancer, reaches: "drop" },
  ],
}));

Deno.test("an endpoint that stands in two slices gets no more than its share", async () => {
  const a = ADDRESSES[4];
  const tries = 1000;
  await using network = await createCluster();
  await applyOnce(network, {
    objects: [
      ...clusterObjects(a),
      service(a),
      slice(a, ["local1", "remote1"], { name: "web-1" }),
      slice(a, ["local1"], { name: "web-2" }),
    ],
    config: configuration(a),
  });
  const outcomes = await network.connect({
    from: "pod",
    address: a.clusterIP,
    port: 80,
    times: tries,
    timeout: 10_000,
  });
  const hosts = outcomes.map((o) => o.type === "answer" ? o.answer.host : o.type);
  const count = hosts.filter((host) => host === "local1").length;
  // 500 are its share; 667 would be that of two slots. Five standard deviations are 80.
  assertLess(Math.abs(count - tries / 2), 80);
});
