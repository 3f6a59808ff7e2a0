import { assertEquals, assertMatch } from "@std/assert";
import { DEFAULT_LIMITS, type Limits } from "../../lib/model/configuration.ts";
import { costOf } from "../../lib/policy/limits.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import type { ServiceFields } from "../support/cluster.ts";
import { service, slice } from "./objects.ts";

/** A pipeline with these limits. */
function limited(limits: Partial<Limits>): Pipeline {
  const signpost = { ...DEFAULTS.signpost, limits: { ...DEFAULT_LIMITS, ...limits } };
  return new Pipeline({ configuration: { signpost } });
}

function ports(count: number): { readonly port: number; readonly name: string }[] {
  return Array.from({ length: count }, (_, i) => ({ port: i + 1, name: `p${i}` }));
}

function addresses(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `192.0.${i >> 8}.${i & 255}`);
}

/** A Service of its own age with a cluster IP of its own. */
function aged(age: number, fields: ServiceFields = {}): ApiObject {
  const metadata = { creationTimestamp: `2026-01-0${age}T00:00:00Z` };
  return service(`s${age}`, { clusterIP: `10.96.0.${age}`, metadata, ...fields });
}

/** External IPs and endpoints of a Service's first port; `none`: it has no rules. */
function rules(pipeline: Pipeline, name: string): unknown {
  const [port] = pipeline.desired.services.get(`default/${name}`) ?? [];
  return port === undefined
    ? "none"
    : [port.externalIPs, port.clusterEndpoints.map(({ address }) => address)];
}

const over = (pipeline: Pipeline) =>
  pipeline.desired.overLimit().map(({ key, limit }) => `${key} ${limit}`);

Deno.test("a Service costs what it asks of the node at most", () => {
  const pipeline = new Pipeline();
  const spec = {
    type: "LoadBalancer",
    clusterIPs: ["10.96.0.1", "fd00::1"],
    externalIPs: ["192.0.2.1", "192.0.2.2"],
    loadBalancerSourceRanges: ["10.0.0.0/8", "172.16.0.0/12", "2001:db8::/32"],
    sessionAffinity: "ClientIP",
    ports: [{ name: "a", port: 1, nodePort: 30001 }, { name: "b", port: 2 }],
    ingress: ["192.0.2.9"],
  };
  pipeline.load([
    service("web", spec),
    slice("web", ["10.244.0.1", "10.244.0.2"]),
    slice("web", ["fd01::1"], { suffix: "6", addressType: "IPv6" }),
  ]);
  const web = pipeline.cache.services.get("default/web");
  if (!web) throw new Error("the Service was refused");
  // IPv4: four addresses with two ports, a node port. IPv6: a cluster IP with two, a node port.
  const elements = 9 * 3 + 1 * 2 * 2 + 3 * 2;
  const chains = 2 * 2 + 2 * 1;
  const [ports, slicePorts, sourceRanges] = [2, 2, 3];
  assertEquals(
    costOf(web, pipeline.cache.slicesOf("default/web"), DEFAULTS.signpost),
    elements + 20 * chains + ports + slicePorts + sourceRanges,
  );
});

Deno.test("a Service over a limit has no rules", () => {
  const pipeline = limited({ service: 11 });
  const step = pipeline.load([
    aged(1, { externalIPs: addresses(10) }),
    aged(2, { externalIPs: ["192.0.0.0"] }),
  ]);
  assertEquals(over(pipeline), ["default/s1 --max-service-cost"]);
  assertEquals(
    step.overLimit[0]?.reason,
    "it costs 12 elements (its frontends with their endpoints, and ports), one Service may cost " +
      "11 (--max-service-cost): ask for less, or raise the limit",
  );
  // What it asks for without being let is free for others.
  assertEquals([rules(pipeline, "s1"), rules(pipeline, "s2")], ["none", [["192.0.0.0"], []]]);
  assertEquals(step.conflicts, []);
});

Deno.test("a Service that grows over a limit keeps its last good state", () => {
  const pipeline = limited({ service: 22 });
  pipeline.load([aged(1, { externalIPs: ["192.0.2.1"] }), slice("s1", ["10.244.0.1"])]);
  const grown = aged(1, { externalIPs: addresses(10) });
  pipeline.load([grown, slice("s1", ["10.244.0.1"])]);
  assertEquals(rules(pipeline, "s1"), [["192.0.2.1"], ["10.244.0.1"]]);
  pipeline.load([grown, slice("s1", ["10.244.0.2"])]);
  assertEquals(rules(pipeline, "s1"), [["192.0.2.1"], ["10.244.0.2"]]);
  assertEquals(over(pipeline), ["default/s1 --max-service-cost"]);
  pipeline.load([aged(1, { externalIPs: addresses(9) }), slice("s1", ["10.244.0.2"])]);
  assertEquals([over(pipeline), rules(pipeline, "s1")], [[], [addresses(9), ["10.244.0.2"]]]);
});

Deno.test("a Service whose endpoints grow over a limit keeps its rules", () => {
  const pipeline = limited({ service: 8 });
  const web = aged(2, { externalIPs: ["192.0.2.1"] });
  const few = slice("s2", ["10.244.0.1"]);
  const many = slice("s2", ["10.244.0.2", "10.244.0.3", "10.244.0.4", "10.244.0.5"]);
  pipeline.load([web, few]);
  pipeline.load([web, many]);
  assertEquals(over(pipeline), ["default/s2 --max-service-cost"]);
  assertEquals(rules(pipeline, "s2"), [["192.0.2.1"], ["10.244.0.1"]]);
  const older = aged(1, { externalIPs: ["192.0.2.1"] });
  pipeline.load([web, many, older]);
  assertEquals(rules(pipeline, "s2"), [[], ["10.244.0.1"]]);
  pipeline.load([web, many]);
  assertEquals(rules(pipeline, "s2"), [["192.0.2.1"], ["10.244.0.1"]], "what they let go");
  pipeline.load([web, few]);
  assertEquals([over(pipeline), rules(pipeline, "s2")], [[], [["192.0.2.1"], ["10.244.0.1"]]]);
  pipeline.load([]);
  assertEquals([over(pipeline), rules(pipeline, "s2")], [[], "none"]);
});

Deno.test("the youngest Services of a namespace over its limit wait", () => {
  const pipeline = limited({ namespace: 9 });
  const five = { externalIPs: ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"] };
  const elsewhere = aged(4, { namespace: "other", ...five });
  const all = [aged(3), aged(2, { externalIPs: ["192.0.2.8", "192.0.2.9"] })];
  pipeline.load([...all, aged(1, five), elsewhere]);
  assertEquals(over(pipeline), ["default/s2 --max-namespace-cost"]);
  assertEquals([rules(pipeline, "s2"), rules(pipeline, "s3")], ["none", [[], []]]);
  assertMatch(pipeline.desired.overLimit()[0]?.reason ?? "", /namespace default costs 10 elements/);
  const step = pipeline.load([...all, aged(1), elsewhere]);
  assertEquals([...step.change.services.keys()].includes("default/s2"), true);
  assertEquals(over(pipeline), []);
  // Who is there stays: what is new is refused.
  pipeline.load([...all, aged(1, five), elsewhere]);
  assertEquals(over(pipeline), ["default/s1 --max-namespace-cost"]);
  assertEquals(rules(pipeline, "s1"), [[], []]);
});

Deno.test("a Service that grows while a younger one shrinks gets what that one gives up", () => {
  const pipeline = limited({ namespace: 8 });
  const grown = (count: number) => ({ externalIPs: addresses(count) });
  const others = (count: number) => ({ externalIPs: addresses(20).slice(10, 10 + count) });
  pipeline.load([aged(1, grown(1)), aged(2, others(3))]);
  assertEquals(over(pipeline), []);
  pipeline.load([aged(1, grown(3)), aged(2, others(1))]);
  assertEquals(over(pipeline), []);
  assertEquals(rules(pipeline, "s1"), [addresses(3), []]);
});

Deno.test("large clusters are far below the limits", () => {
  const pipeline = new Pipeline();
  const endpoints = Array.from({ length: 2_000 }, (_, i) => `10.244.${i >> 8}.${i & 255}`);
  const slices = Array.from(
    { length: 20 },
    (_, i) => slice("s1", endpoints.slice(i * 100, i * 100 + 100), { suffix: `${i}` }),
  );
  pipeline.load([
    aged(1, { sessionAffinity: "ClientIP", externalIPs: addresses(10), ports: ports(1) }),
    aged(2, { externalIPs: addresses(100).slice(50), ports: ports(100) }),
    ...slices,
  ]);
  assertEquals(over(pipeline), []);
});

Deno.test("hostile Services are refused without being worked out", () => {
  const pipeline = new Pipeline();
  const objects = [
    aged(1, { externalIPs: addresses(10_000), ports: ports(400) }),
    aged(2, {
      type: "LoadBalancer",
      ports: ports(2_000),
      loadBalancerSourceRanges: addresses(20_000).map((address) => `${address}/32`),
      ingress: ["192.0.2.9"],
    }),
    aged(3, { sessionAffinity: "ClientIP", ports: ports(1_000) }),
    slice("s3", Array.from({ length: 10 }, (_, i) => `10.244.0.${i}`)),
    aged(4),
  ];
  const { change } = pipeline.load(objects);
  assertEquals(over(pipeline), [
    "default/s1 --max-service-cost",
    "default/s2 --max-service-cost",
    "default/s3 --max-service-cost",
  ]);
  const made = [...change.services].map(([key, { after }]) => [key, after.length]);
  assertEquals(made.toSorted(), [
    ["default/s1", 0],
    ["default/s2", 0],
    ["default/s3", 0],
    ["default/s4", 1],
  ]);
});

Deno.test("source ranges are merged once for a family", () => {
  const pipeline = new Pipeline();
  const ranges = Array.from({ length: 200 }, (_, i) => `10.${i}.0.0/16`);
  const spec = { type: "LoadBalancer", ports: ports(50), loadBalancerSourceRanges: ranges };
  pipeline.load([service("web", { ...spec, ingress: ["192.0.2.1"] })]);
  const all = pipeline.desired.services.get("default/web")?.map((port) => port.sourceRanges);
  assertEquals([all?.length, new Set(all).size], [50, 1]);
  pipeline.load([service("web", spec)]);
  assertEquals(pipeline.desired.services.get("default/web")?.[0]?.sourceRanges, []);
});
