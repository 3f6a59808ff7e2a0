/** Compares with kube-proxy 1.37 on objects at the edges: manifests, and a case of kube-proxy's own tests. */
import { assertEquals } from "@std/assert";
import { parseAll } from "@std/yaml";
import type { DesiredServicePort } from "../../lib/model/kernel/desired.ts";
import { type ApiObject, Pipeline, type PipelineOptions } from "../support/pipeline.ts";
import { targets } from "./objects.ts";
import { endpoint, service as buildService, slice as buildSlice } from "../support/cluster.ts";

const FOLDER = new URL("../testdata/parity/", import.meta.url);

/** The desired state of a manifest, on its `node-1`. */
function load(name: string, options: PipelineOptions = {}): Pipeline {
  const text = Deno.readTextFileSync(new URL(`${name}.yaml`, FOLDER));
  const objects = (parseAll(text) as (ApiObject | null)[]).filter((each) => each !== null);
  const pipeline = new Pipeline({
    ...options,
    configuration: { clusterCIDRs: ["10.244.0.0/16"], ...options.configuration },
  });
  const { refused } = pipeline.load(objects);
  assertEquals(refused, []);
  return pipeline;
}

function portOf(pipeline: Pipeline, service: string): DesiredServicePort | undefined {
  return pipeline.desired.services.get(service)?.[0];
}

Deno.test("TestEndpointInfoByServicePort: with duplicate Endpoints, prefer non-terminating", () => {
  const conditions = [
    { ready: false, serving: true, terminating: true },
    { ready: true, serving: true, terminating: false },
    { ready: false, serving: false, terminating: true },
  ];
  const pipeline = new Pipeline({ nodeName: "host1" });
  pipeline.load([
    buildService({
      namespace: "ns1",
      name: "svc1",
      internalTrafficPolicy: "Local",
      ports: [{ name: "port-0", port: 80 }],
    }),
    buildSlice({
      namespace: "ns1",
      service: "svc1",
      ports: [{ name: "port-0", port: 80, protocol: "TCP" }],
      endpoints: conditions.map((each) => endpoint("10.0.1.1@host1", { conditions: each })),
    }),
  ]);
  assertEquals(targets(portOf(pipeline, "ns1/svc1"), "local"), ["10.0.1.1:80"]);
});

for (const mode of ["nftables", "iptables"] as const) {
  Deno.test(`dual.yaml: a short circuit's endpoint is masqueraded to itself (${mode})`, () => {
    const port = portOf(load("dual", { mode }), "shop/lb");
    assertEquals(port?.clusterEndpoints, [
      { address: "10.244.1.11", port: 8080, local: false, hairpin: true },
    ]);
    assertEquals(port?.localEndpoints, []);
  });
}

Deno.test("node.yaml: a Node that goes and comes back changes nothing", () => {
  const pipeline = load("node", { configuration: { detectLocalMode: "NodeCIDR" } });
  const { node } = pipeline.desired;
  assertEquals(node.families[4].localDetector, { type: "cidr", cidr: "10.244.0.0/24" });
  const bare: ApiObject = { kind: "Node", metadata: { name: "node-1", uid: "other" } };
  const text = Deno.readTextFileSync(new URL("node.yaml", FOLDER));
  const back = (parseAll(text) as (ApiObject | null)[]).filter((each) => each !== null);
  for (const objects of [[], [bare], [], back]) {
    assertEquals(pipeline.load(objects).change, { node: undefined, services: new Map() });
    assertEquals(pipeline.desired.node, node);
    assertEquals(pipeline.cache.node?.zone, "Zone_A");
  }
});
