import { assertEquals } from "@std/assert";
import fc from "fast-check";
import type { Step } from "../../lib/policy/state.ts";
import { cluster } from "../support/arbitrary.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { createDecoder } from "../../lib/source/objects/decode.ts";
import type { Kind, ObjectEvent } from "../../lib/model/cluster/objects.ts";
import { node, service, slice } from "./objects.ts";
import { serviceCIDR } from "../support/cluster.ts";

const decode = createDecoder();

/** Many Services `default/s<number>` with an endpoint each. */
function many(count: number): ApiObject[] {
  return Array.from({ length: count }, (_, i) => [
    service(`s${i}`, { clusterIP: `10.96.${i >> 8}.${i & 255}` }),
    slice(`s${i}`, [`10.244.${i >> 8}.${i & 255}`]),
  ]).flat();
}

/** Takes one object in, or out, and works the step out. */
function step(pipeline: Pipeline, object: ApiObject, gone = false): Step {
  const kind = object.kind as Kind;
  const decoded = decode(kind, object);
  if (decoded.type !== "upsert") throw new Error(`the object is ${decoded.type}`);
  pipeline.cache.apply(gone ? { type: "delete", kind, key: decoded.key } : decoded);
  return pipeline.desired.update(pipeline.cache, pipeline.cache.takeDirty());
}

const touched = ({ change }: Step) => [...change.services.keys()].sort();

Deno.test("the first step is about everything", () => {
  const pipeline = new Pipeline();
  const { change } = pipeline.load(many(3));
  assertEquals([...change.services.keys()].sort(), ["default/s0", "default/s1", "default/s2"]);
  assertEquals([...change.services.values()].every(({ before }) => before.length === 0), true);
});

Deno.test("only Services that a change touches are worked out again", () => {
  const pipeline = new Pipeline();
  pipeline.load(many(500));
  assertEquals(touched(step(pipeline, slice("s7", ["10.244.9.9"]))), ["default/s7"]);
  assertEquals(touched(step(pipeline, service("s8", { clusterIP: "10.96.9.9" }))), ["default/s8"]);
  assertEquals(touched(step(pipeline, service("s9"), true)), ["default/s9"]);
  assertEquals(touched(step(pipeline, service("new", { clusterIP: "10.96.9.8" }))), [
    "default/new",
  ]);
  assertEquals(pipeline.desired.services.size, 500);
});

Deno.test("what is worked out again and stays as it was is the same list", () => {
  const pipeline = new Pipeline();
  const zone = (name: string) => node(["192.0.2.10"], { "topology.kubernetes.io/zone": name });
  pipeline.load([zone("a"), ...many(3)]);
  const other = decode("EndpointSlice", slice("s1", ["10.244.9.9"]));
  pipeline.cache.apply({ ...other, type: "upsert", kind: "EndpointSlice" } as ObjectEvent);
  const { change } = step(pipeline, zone("b"));
  const isSame = [...change.services].sort().map(([key, { before, after }]) =>
    [key, before === after] as const
  );
  assertEquals(isSame, [["default/s0", true], ["default/s1", false], ["default/s2", true]]);
});

Deno.test("service ports without a local endpoint are counted", () => {
  const pipeline = new Pipeline();
  pipeline.load([node(["192.0.2.10"])]);
  const spec = { clusterIP: "10.96.0.1", internalTrafficPolicy: "Local" };
  const { desired } = pipeline;
  const none = { internal: 0, external: 0 };
  step(pipeline, service("web", spec));
  assertEquals(desired.noLocal(4), none, "no endpoint anywhere");
  step(pipeline, slice("web", ["10.244.0.1"]));
  assertEquals(desired.noLocal(4), { internal: 1, external: 0 });
  const external = { ...spec, externalIPs: ["192.0.2.1"], externalTrafficPolicy: "Local" };
  step(pipeline, service("web", external));
  assertEquals(desired.noLocal(4), { internal: 1, external: 1 });
  step(pipeline, service("web"), true);
  assertEquals([desired.noLocal(4), desired.noLocal(6)], [none, none]);
});

Deno.test("a step has what was and what is to be", () => {
  const pipeline = new Pipeline();
  pipeline.load([service("web"), slice("web", ["10.244.0.1"])]);
  const before = pipeline.desired.services.get("default/web");
  const { change } = step(pipeline, slice("web", ["10.244.0.1", "10.244.0.2"]));
  const after = pipeline.desired.services.get("default/web");
  assertEquals([...change.services.values()], [{ before: before ?? [], after: after ?? [] }]);
  assertEquals(after?.[0]?.clusterEndpoints.length, 2);
  const gone = step(pipeline, service("web"), true).change.services.get("default/web");
  assertEquals(gone, { before: after ?? [], after: [] });
  assertEquals(pipeline.desired.services.has("default/web"), false);
});

Deno.test("slices that come before their Service wait for it", () => {
  const pipeline = new Pipeline();
  pipeline.load([slice("web", ["10.244.0.1"])]);
  assertEquals(pipeline.desired.services.size, 0);
  step(pipeline, service("web"));
  assertEquals(pipeline.desired.services.get("default/web")?.[0]?.clusterEndpoints.length, 1);
});

Deno.test("slices of a Service count in the order of their names, whichever came first", () => {
  const slices = [
    slice("web", ["10.244.0.1@node-a"], { suffix: "a" }),
    slice("web", ["10.244.0.1"], { suffix: "b", endpoints: [{ addresses: ["10.244.0.1"] }] }),
  ];
  for (const order of [slices, slices.toReversed()]) {
    const pipeline = new Pipeline();
    pipeline.load([service("web"), ...order]);
    const [port] = pipeline.desired.services.get("default/web") ?? [];
    assertEquals(port?.clusterEndpoints.map(({ local }) => local), [false]);
  }
});

Deno.test("an address is claimed with its protocol and port alone", () => {
  const pipeline = new Pipeline();
  const externalIPs = ["192.0.2.1"];
  const { conflicts } = pipeline.load([
    service("tcp", { externalIPs }),
    service("udp", { clusterIP: "10.96.0.2", externalIPs, ports: [{ port: 80, protocol: "UDP" }] }),
    service("https", { clusterIP: "10.96.0.3", externalIPs, ports: [{ port: 443 }] }),
  ]);
  assertEquals(conflicts, []);
});

Deno.test("a node port is claimed in each family, with its protocol", () => {
  const pipeline = new Pipeline();
  const withNodePort = (name: string, clusterIP: string, protocol: string) =>
    service(name, {
      type: "NodePort",
      clusterIP,
      ports: [{ port: 80, nodePort: 30080, protocol }],
    });
  const { conflicts } = pipeline.load([
    withNodePort("a", "10.96.0.1", "TCP"),
    withNodePort("b", "10.96.0.2", "UDP"),
    withNodePort("c", "fd00::1", "TCP"),
    withNodePort("d", "10.96.0.4", "TCP"),
  ]);
  assertEquals(conflicts, [{
    claim: "IPv4 node port tcp . 30080",
    holder: "default/a",
    loser: "default/d",
    because: "which is older",
  }]);
  assertEquals(pipeline.desired.services.get("default/d")?.[0]?.nodePort, 0);
});

Deno.test("a change of ServiceCIDRs works no Service out again", () => {
  const pipeline = new Pipeline();
  pipeline.load([...many(3), node(["192.0.2.10"])]);
  const cidr = serviceCIDR({ name: "more", cidrs: ["10.0.0.0/24"] });
  const { change } = step(pipeline, cidr);
  assertEquals(change.node?.before.families[4].serviceCIDRs, []);
  assertEquals(change.node?.after.families[4].serviceCIDRs, ["10.0.0.0/24"]);
  assertEquals([...change.services.keys()], []);
  assertEquals(step(pipeline, cidr).change.node, undefined);
});

Deno.test("a change of the node that no rule depends on changes nothing", () => {
  const pipeline = new Pipeline();
  pipeline.load([...many(3), node(["192.0.2.10"])]);
  const { change } = step(pipeline, node(["192.0.2.10"], { "example.org/colour": "blue" }));
  assertEquals([change.node, [...change.services.keys()]], [undefined, []]);
});

Deno.test("a new zone of the node has its Services worked out again", () => {
  const hinted = (suffix: string, address: string, zone: string) =>
    slice("web", [address], {
      suffix,
      endpoints: [{ addresses: [address], hints: { forZones: [{ name: zone }] } }],
    });
  const pipeline = new Pipeline();
  const inZone = (zone: string) => node(["192.0.2.10"], { "topology.kubernetes.io/zone": zone });
  pipeline.load([
    service("web"),
    hinted("a", "10.244.0.1", "zone-a"),
    hinted("b", "10.244.0.2", "zone-b"),
    inZone("zone-a"),
  ]);
  const addresses = () =>
    pipeline.desired.services.get("default/web")?.[0]?.clusterEndpoints.map((e) => e.address);
  assertEquals(addresses(), ["10.244.0.1"]);
  assertEquals(touched(step(pipeline, inZone("zone-b"))), ["default/web"]);
  assertEquals(addresses(), ["10.244.0.2"]);
});

Deno.test("a new address of the node has source ranges worked out again", () => {
  const pipeline = new Pipeline();
  const spec = { type: "LoadBalancer", loadBalancerSourceRanges: ["192.0.2.0/24"] };
  const web = service("web", { ...spec, ingress: ["203.0.113.1"] });
  pipeline.load([web, node(["198.51.100.1"])]);
  const ranges = () => pipeline.desired.services.get("default/web")?.[0]?.sourceRanges;
  assertEquals(ranges(), ["192.0.2.0/24"]);
  step(pipeline, node(["192.0.2.10"]));
  assertEquals(ranges(), ["192.0.2.0/24", "203.0.113.1/32"]);
});

Deno.test("whatever way leads to some objects, the desired state is the same", () => {
  fc.assert(
    fc.property(cluster, cluster, cluster, (a, b, c) => {
      const travelled = new Pipeline();
      for (const objects of [a, b, c]) travelled.load(objects);
      const fresh = new Pipeline();
      fresh.load(c);
      assertEquals(travelled.desired.node, fresh.desired.node);
      assertEquals(new Map(travelled.desired.services), new Map(fresh.desired.services));
      const byName = (x: { loser: string; claim: string }, y: typeof x) =>
        `${x.loser} ${x.claim}` < `${y.loser} ${y.claim}` ? -1 : 1;
      assertEquals(
        travelled.desired.conflicts().sort(byName),
        fresh.desired.conflicts().sort(byName),
      );
    }),
    { numRuns: 200 },
  );
});

Deno.test("an address that a large Service gives up is of one Service in each step", () => {
  const pipeline = new Pipeline();
  const { cache, desired } = pipeline;
  const externalIPs = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
  const endpoints = Array.from({ length: 50 }, (_, i) => `10.244.0.${i}`);
  const large = { clusterIP: "10.96.0.1" };
  pipeline.load([service("large", { ...large, externalIPs }), slice("large", endpoints)]);
  pipeline.deliver([
    service("large", large),
    slice("large", endpoints),
    service("other", { clusterIP: "10.96.0.2", externalIPs: externalIPs.slice(-1) }),
    slice("other", ["10.244.1.1"]),
  ]);
  const { unfinished } = desired.update(cache, cache.takeDirty(), 60);
  const held = ["large", "other"].map((name) =>
    desired.services.get(`default/${name}`)?.flatMap((port) => port.externalIPs)
  );
  assertEquals([...unfinished], ["default/large"]);
  assertEquals(held, [["192.0.2.2", "192.0.2.3"], ["192.0.2.4"]]);
});
