import { assertEquals } from "@std/assert";
import { Pipeline } from "../support/pipeline.ts";
import { limitGrowth } from "../../lib/policy/limits.ts";
import type { DesiredServicePort } from "../../lib/model/kernel/desired.ts";
import { node, service, slice } from "./objects.ts";

type Ports = readonly DesiredServicePort[];

interface Spec {
  readonly endpoints?: number;
  readonly externalIPs?: number;
  readonly ports?: number;
  readonly affinity?: boolean;
}

const range = (length: number) => Array.from({ length }, (_, i) => i);

/** The desired ports of a Service with cluster IP 10.96.0.1. */
function portsOf({ endpoints = 0, externalIPs = 0, ports = 1, affinity = false }: Spec): Ports {
  const pipeline = new Pipeline();
  const names = range(ports).map((i) => ({ name: `p${i}`, port: i + 1 }));
  pipeline.load([
    service("web", {
      clusterIP: "10.96.0.1",
      externalIPs: range(externalIPs).map((i) => `192.0.${i >> 8}.${i & 255}`),
      ports: names,
      ...affinity && { sessionAffinity: "ClientIP" },
    }),
    slice("web", range(endpoints).map((i) => `10.244.${i >> 8}.${i & 255}`), { ports: names }),
  ]);
  return pipeline.desired.services.get("default/web") ?? [];
}

/** For each port its endpoints and its addresses. */
const sizes = (ports: Ports) =>
  ports.map(({ clusterEndpoints, clusterIPs, externalIPs }) => [
    clusterEndpoints.length,
    clusterIPs.length + externalIPs.length,
  ]);

/** The steps from one state to another. */
function stepsTo(wanted: Ports, { most, before = [] }: { most: number; before?: Ports }): Ports[] {
  const steps: Ports[] = [];
  for (let last = before; last !== wanted && steps.length < 1_000;) {
    last = limitGrowth(last, { wanted, most });
    steps.push(last);
  }
  return steps;
}

Deno.test("a step that adds no more than it may is the wanted state itself", () => {
  const wanted = portsOf({ endpoints: 10 });
  assertEquals(limitGrowth([], { wanted, most: 11 }) === wanted, true);
});

Deno.test("endpoints come in several steps", () => {
  const steps = stepsTo(portsOf({ endpoints: 100 }), { most: 40 });
  assertEquals(steps.map(sizes), [[[40, 1]], [[80, 1]], [[100, 1]]]);
});

Deno.test("ports come in several steps", () => {
  const steps = stepsTo(portsOf({ endpoints: 10, ports: 4 }), { most: 22 });
  assertEquals(steps.map(sizes), [[[10, 1], [10, 1]], [[10, 1], [10, 1], [10, 1], [10, 1]]]);
});

Deno.test("addresses come in several steps", () => {
  const before = portsOf({ endpoints: 10 });
  const steps = stepsTo(portsOf({ endpoints: 10, externalIPs: 5 }), { before, most: 22 });
  assertEquals(steps.map(sizes), [[[10, 3]], [[10, 5]], [[10, 6]]]);
});

Deno.test("a chain of session affinity costs as much as many elements", () => {
  const [first] = stepsTo(portsOf({ endpoints: 100, affinity: true }), { most: 40 });
  assertEquals(sizes(first ?? []), [[2, 1]]);
});

Deno.test("what goes is gone in the first step", () => {
  const before = portsOf({ endpoints: 100, externalIPs: 2, ports: 2 });
  const [port] = before;
  const wanted = portsOf({ endpoints: 50, externalIPs: 1, ports: 50 });
  const [first = []] = stepsTo(wanted, { before, most: 50 });
  assertEquals(sizes(first.slice(0, 2)), [[50, 2], [50, 2]]);
  assertEquals(port?.clusterEndpoints.length, 100);
});

Deno.test("each step adds something, however little it may add", () => {
  const wanted = portsOf({ endpoints: 3, externalIPs: 3, ports: 2 });
  const steps = stepsTo(wanted, { most: 1 });
  assertEquals(steps.at(-1) === wanted, true);
  assertEquals(sizes(steps[0] ?? []), [[1, 1]]);
});

/** The desired endpoints of `default/web`, sorted. */
const endpointsOf = ({ desired }: Pipeline) =>
  (desired.services.get("default/web")?.[0]?.clusterEndpoints ?? [])
    .map(({ address }) => address).sort();

/** Runs steps of at most 40 elements until nothing is left. @returns their number */
function grow(pipeline: Pipeline): number {
  for (let steps = 1;; steps++) {
    const { growing } = pipeline.desired.update(pipeline.cache, pipeline.cache.takeDirty(), 40);
    if (growing.size === 0) return steps;
    pipeline.cache.putBack(growing);
  }
}

Deno.test("a Service that changes while it grows ends with the endpoints of the change", () => {
  const addresses = (from: number, to: number) =>
    range(to - from).map((i) => `10.244.0.${from + i}`);
  const pipeline = new Pipeline();
  pipeline.deliver([service("web"), slice("web", addresses(0, 150))]);
  const first = pipeline.desired.update(pipeline.cache, pipeline.cache.takeDirty(), 40);
  assertEquals([...first.growing], ["default/web"]);
  assertEquals(endpointsOf(pipeline).length, 40);
  pipeline.deliver([service("web"), slice("web", addresses(20, 200))]);
  assertEquals(grow(pipeline), 4);
  assertEquals(endpointsOf(pipeline), addresses(20, 200).sort());
});

Deno.test("a Service grows to other endpoints if the node's zone changes", () => {
  const inZone = (zone: string, from: number) =>
    range(100).map((i) => ({
      addresses: [`10.244.0.${from + i}`],
      zone,
      hints: { forZones: [{ name: zone }] },
    }));
  const endpoints = [...inZone("a", 0), ...inZone("b", 100)];
  const objects = (zone: string) => [
    node(["192.0.2.1"], { "topology.kubernetes.io/zone": zone }),
    service("web"),
    slice("web", [], { addressType: "IPv4", endpoints }),
  ];
  const pipeline = new Pipeline();
  pipeline.deliver(objects("a"));
  const { growing } = pipeline.desired.update(pipeline.cache, pipeline.cache.takeDirty(), 40);
  pipeline.cache.putBack(growing);
  pipeline.deliver(objects("b"));
  grow(pipeline);
  assertEquals(endpointsOf(pipeline), inZone("b", 100).flatMap((each) => each.addresses).sort());
});
