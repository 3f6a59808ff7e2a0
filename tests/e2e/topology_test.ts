import { service, slice } from "./cluster.ts";
import type { EndpointHost, EndpointOptions } from "./cluster.ts";
import { testCase } from "./case.ts";
import { nodePortFlow } from "./flow.ts";

/** An endpoint with hints for zones; this node is in `zone-a`. */
function inZones(host: EndpointHost, ...zones: string[]): EndpointOptions {
  return { host, hints: { forZones: zones.map((name) => ({ name })) } };
}

/** An endpoint with hints for nodes, and for zones where they are given; this node is `node1`. */
function forNodes(host: EndpointHost, nodes: readonly string[], zones?: readonly string[]) {
  return {
    host,
    hints: {
      forNodes: nodes.map((name) => ({ name })),
      ...(zones && { forZones: zones.map((name) => ({ name })) }),
    },
  };
}

testCase(
  "zone hints keep traffic in the node's zone, for internal and external addresses",
  (a) => ({
    objects: [
      service(a, { spec: { type: "NodePort", trafficDistribution: "PreferSameZone" } }),
      slice(a, [
        inZones("local1", "zone-a"),
        inZones("remote1", "zone-b", "zone-a"),
        inZones("remote2", "zone-b"),
      ]),
    ],
    flows: [
      { from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] },
      nodePortFlow(a, { from: "client", reaches: ["local1", "remote1"], masqueraded: true }),
    ],
  }),
);

testCase("hints are followed whatever trafficDistribution says", (a) => ({
  objects: [
    service(a, { spec: { trafficDistribution: "PreferClose" } }),
    slice(a, [inZones("local1", "zone-a"), inZones("remote1", "zone-b")]),
    service(a, { name: "plain", spec: { clusterIP: a.clusterIP2 } }),
    slice(a, [inZones("local1", "zone-a"), inZones("remote1", "zone-b")], { service: "plain" }),
  ],
  flows: [
    { from: "pod", to: a.clusterIP, reaches: ["local1"] },
    { from: "pod", to: a.clusterIP2, reaches: ["local1"] },
  ],
}));

testCase("trafficDistribution without hints changes nothing", (a) => ({
  objects: [
    service(a, { spec: { trafficDistribution: "PreferSameNode" } }),
    slice(a, ["local1", "remote1"]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] }],
}));

testCase("one ready endpoint without a hint turns all hints off", (a) => ({
  objects: [
    service(a),
    slice(a, [inZones("local1", "zone-a"), inZones("remote1", "zone-b"), "remote2"]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1", "remote1", "remote2"] }],
}));

testCase("endpoints that are not ready need no hints", (a) => ({
  objects: [
    service(a),
    slice(a, [inZones("local1", "zone-a"), inZones("remote1", "zone-b"), {
      host: "remote2",
      conditions: { ready: false },
    }]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1"] }],
}));

testCase("where no hint names the node's zone, all endpoints are used", (a) => ({
  objects: [service(a), slice(a, [inZones("local1", "zone-c"), inZones("remote1", "zone-b")])],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] }],
}));

testCase("node hints come before zone hints", (a) => ({
  objects: [
    service(a, { spec: { trafficDistribution: "PreferSameNode" } }),
    slice(a, [
      forNodes("local1", ["node1"], ["zone-a"]),
      forNodes("remote1", ["node2"], ["zone-a"]),
      forNodes("remote2", ["node3"], ["zone-b"]),
    ]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1"] }],
}));

testCase("where no hint names the node, zone hints decide", (a) => ({
  objects: [
    service(a, { spec: { trafficDistribution: "PreferSameNode" } }),
    slice(a, [
      forNodes("remote1", ["node2"], ["zone-a"]),
      forNodes("remote2", ["node3"], ["zone-b"]),
    ]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["remote1"] }],
}));

testCase("node hints on a part of the endpoints are not followed", (a) => ({
  objects: [
    service(a),
    slice(a, [forNodes("local1", ["node1"], ["zone-a"]), inZones("remote1", "zone-a")]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] }],
}));

testCase("hints say nothing of the Local policy", (a) => ({
  objects: [
    service(a, { spec: { type: "NodePort", externalTrafficPolicy: "Local" } }),
    slice(a, [
      inZones("local1", "zone-b"),
      inZones("local2", "zone-a"),
      inZones("remote1", "zone-a"),
    ]),
  ],
  flows: [
    nodePortFlow(a, { from: "client", reaches: ["local1", "local2"] }),
    { from: "pod", to: a.clusterIP, reaches: ["local2", "remote1"] },
  ],
}));
