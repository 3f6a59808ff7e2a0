import type { Fields } from "../support/cluster.ts";
import { assertEquals } from "@std/assert";
import type { DesiredServicePort } from "../../lib/model/kernel/desired.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { node, service, slice, targets } from "./objects.ts";

/** The desired service ports of `default/web`. */
function portsOf(...objects: readonly ApiObject[]): readonly DesiredServicePort[] {
  const pipeline = new Pipeline();
  const { refused } = pipeline.load(objects);
  assertEquals(refused, []);
  return pipeline.desired.services.get("default/web") ?? [];
}

/** The only desired service port of `default/web`. */
function portOf(...objects: readonly ApiObject[]): DesiredServicePort {
  const [port, ...others] = portsOf(...objects);
  if (port === undefined || others.length > 0) throw new Error("one service port was expected");
  return port;
}

Deno.test("a ClusterIP Service has one desired service port for each of its ports", () => {
  const ports = [{ name: "dns", port: 53, protocol: "UDP" }, { name: "http", port: 80 }];
  const found = portsOf(service("web", { ports }), slice("web", ["10.244.0.1"]));
  assertEquals(found.map(({ name, protocol, port }) => [name, protocol, port]), [
    ["default/web:dns", "udp", 53],
    ["default/web:http", "tcp", 80],
  ]);
});

Deno.test("a Service without slices has rules too", () => {
  const port = portOf(service("web"));
  assertEquals(port.clusterIPs, ["10.96.0.1"]);
  assertEquals([port.clusterEndpoints, port.localEndpoints, port.hasEndpoints], [[], [], false]);
});

Deno.test("a dual-stack Service has the ports of both families, IPv4 first", () => {
  const found = portsOf(
    service("web", {
      clusterIP: "fd00:10:96::1",
      clusterIPs: ["fd00:10:96::1", "10.96.0.1"],
      externalIPs: ["2001:db8::1", "192.0.2.1"],
    }),
    slice("web", ["10.244.0.1"], { suffix: "v4" }),
    slice("web", ["fd00:10:244::1"], { suffix: "v6" }),
  );
  assertEquals(
    found.map((port) => [port.family, port.clusterIPs, port.externalIPs, targets(port, "cluster")]),
    [
      [4, ["10.96.0.1"], ["192.0.2.1"], ["10.244.0.1:8080"]],
      [6, ["fd00:10:96::1"], ["2001:db8::1"], ["[fd00:10:244::1]:8080"]],
    ],
  );
});

Deno.test("addresses of a family in which the Service has no cluster IP make no rules", () => {
  const externalIPs = ["2001:db8::1", "192.0.2.1"];
  const ingress = ["2001:db8::2", "192.0.2.2"];
  const port = portOf(service("web", { type: "LoadBalancer", externalIPs, ingress }));
  const found = [port.family, port.externalIPs, port.loadBalancerIPs];
  assertEquals(found, [4, ["192.0.2.1"], ["192.0.2.2"]]);
});

Deno.test("an address counts once, as cluster IP first", () => {
  const externalIPs = ["10.96.0.1", "192.0.2.1", "192.0.2.2"];
  const ingress = ["10.96.0.1", "192.0.2.1"];
  const port = portOf(service("web", { type: "LoadBalancer", externalIPs, ingress }));
  const found = [port.clusterIPs, port.loadBalancerIPs, port.externalIPs];
  assertEquals(found, [["10.96.0.1"], ["192.0.2.1"], ["192.0.2.2"]]);
});

Deno.test("external IPs make no rules where the feature gate AllowServiceExternalIPs is off", () => {
  const options = { configuration: { featureGates: { AllowServiceExternalIPs: false } } };
  const pipeline = new Pipeline(options);
  const { conflicts } = pipeline.load([
    service("web", { externalIPs: ["192.0.2.1"] }),
    service("web-2", { clusterIP: "10.96.0.2", externalIPs: ["192.0.2.1"] }),
  ]);
  assertEquals(pipeline.desired.services.get("default/web")?.[0]?.externalIPs, []);
  assertEquals(conflicts, []);
});

const ENDPOINTS = ["10.244.0.1@node-1", "10.244.1.1@node-2"];
const HERE = ["10.244.0.1:8080"];
const EVERYWHERE = ["10.244.0.1:8080", "10.244.1.1:8080"];

/** A case, its spec, and the endpoints of both lists. */
const POLICIES: readonly (readonly [string, Fields, readonly string[], readonly string[]])[] = [
  [
    "both policies Cluster: all endpoints",
    { type: "NodePort", ports: [{ port: 80, nodePort: 30080 }] },
    EVERYWHERE,
    [],
  ],
  [
    "internal policy Local without external traffic: those of this node alone",
    { internalTrafficPolicy: "Local" },
    [],
    HERE,
  ],
  [
    "internal policy Local with external traffic: both sets",
    { internalTrafficPolicy: "Local", externalIPs: ["192.0.2.1"] },
    EVERYWHERE,
    HERE,
  ],
  [
    "external policy Local: both sets, for the node's and pods' short circuit",
    { type: "NodePort", externalTrafficPolicy: "Local", ports: [{ port: 80, nodePort: 30080 }] },
    EVERYWHERE,
    HERE,
  ],
  [
    "external policy Local without an external address: all endpoints",
    { type: "LoadBalancer", externalTrafficPolicy: "Local" },
    EVERYWHERE,
    [],
  ],
];

for (const [name, spec, cluster, local] of POLICIES) {
  Deno.test(`traffic policies: ${name}`, () => {
    const port = portOf(service("web", spec), slice("web", ENDPOINTS));
    assertEquals(targets(port, "cluster"), cluster);
    assertEquals(targets(port, "local"), local);
  });
}

Deno.test("with the policy Local and endpoints elsewhere alone, the Service has endpoints", () => {
  const port = portOf(
    service("web", { internalTrafficPolicy: "Local" }),
    slice("web", ["10.244.1.1@node-2"]),
  );
  assertEquals([port.localEndpoints, port.hasEndpoints], [[], true]);
});

const NODE = node(["192.0.2.10", "2001:db8::10"]);

/** The source ranges of a load balancer with the IPs 203.0.113.1 and 2001:db8:f::1. */
function rangesOf(ranges: readonly string[]): (readonly string[])[] {
  const spec = {
    type: "LoadBalancer",
    clusterIPs: ["10.96.0.1", "fd00:10:96::1"],
    loadBalancerSourceRanges: ranges,
    ingress: ["203.0.113.1", "2001:db8:f::1"],
  };
  return portsOf(service("web", spec), NODE).map(({ sourceRanges }) => sourceRanges);
}

Deno.test("source ranges are merged, each family has its own", () => {
  assertEquals(rangesOf([" 198.51.100.0/25 ", "198.51.100.128/25", "2001:db8:1::/64"]), [
    ["198.51.100.0/24"],
    ["2001:db8:1::/64"],
  ]);
});

Deno.test("without source ranges of a family, all its sources may connect", () => {
  assertEquals(rangesOf([]), [[], []]);
  assertEquals(rangesOf(["2001:db8:1::/64"]), [[], ["2001:db8:1::/64"]]);
});

Deno.test("a source range of length 0 lets all sources of its family in", () => {
  const ranges = ["198.51.100.0/24", "0.0.0.0/0", "2001:db8:1::/64"];
  assertEquals(rangesOf(ranges), [[], ["2001:db8:1::/64"]]);
});

Deno.test("a source range with this node admits the load-balancer IPs themselves", () => {
  assertEquals(rangesOf(["192.0.2.0/24", "2001:db8:1::/64"]), [
    ["192.0.2.0/24", "203.0.113.1/32"],
    ["2001:db8:1::/64"],
  ]);
  assertEquals(rangesOf(["2001:db8::/64"]), [[], ["2001:db8::/64", "2001:db8:f::1/128"]]);
});

Deno.test("source ranges with this node and the load-balancer IP are unchanged", () => {
  assertEquals(rangesOf(["192.0.0.0/8", "203.0.113.0/24"])[0], ["192.0.0.0/8", "203.0.113.0/24"]);
});

Deno.test("session affinity and its timeout hold for every port", () => {
  const ports = [{ name: "a", port: 1 }, { name: "b", port: 2 }];
  const found = portsOf(service("web", { sessionAffinity: "ClientIP", ports }));
  assertEquals(found.map(({ affinitySeconds }) => affinitySeconds), [10_800, 10_800]);
});
