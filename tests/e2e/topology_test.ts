import { service, slice } from "./cluster.ts";
import type { EndpointHost, EndpointOptions } from "./cluster.ts";
import { testCase } from "./case.ts";
import { nodePortFlow } from "./flow.ts";

/** An endpoint with hints for zones; this node is in `zone-a`. */
function inZones(host: EndpointHost, ...zones: string[]): EndpointOptions {
  return { host, hints: { forZones: zones.map((name) => ({ name })) } };
}

/** An endpoint with a hint for a node and for a zone; this node is `node1`. */
function forNode(host: EndpointHost, node: string, zone: string): EndpointOptions {
  return { host, hints: { forNodes: [{ name: node }], forZones: [{ name: zone }] } };
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

testCase("node hints come before zone hints", (a) => ({
  objects: [
    service(a, { spec: { trafficDistribution: "PreferSameNode" } }),
    slice(a, [
      forNode("local1", "node1", "zone-a"),
      forNode("remote1", "node2", "zone-a"),
      forNode("remote2", "node3", "zone-b"),
    ]),
  ],
  flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1"] }],
}));
