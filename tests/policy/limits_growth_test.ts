import { assertEquals } from "@std/assert";
import { Pipeline } from "../support/pipeline.ts";
import { limitStep } from "../../lib/policy/limits.ts";
import type { DesiredServicePort } from "../../lib/model/kernel/desired.ts";
import { ingress, node, service, slice } from "./objects.ts";

type Ports = readonly DesiredServicePort[];

interface Spec {
  readonly endpoints?: number;
  /** The number of the first endpoint. */
  readonly first?: number;
  readonly externalIPs?: number;
  readonly ranges?: readonly number[];
  readonly ports?: number;
  readonly affinity?: boolean;
}

const range = (length: number) => Array.from({ length }, (_, i) => i);

/** The desired ports of a Service with cluster IP 10.96.0.1. */
function portsOf(spec: Spec): Ports {
  const { endpoints = 0, first = 0, externalIPs = 0, ranges = [], ports = 1, affinity = false } =
    spec;
  const pipeline = new Pipeline();
  const names = range(ports).map((i) => ({ name: `p${i}`, port: i + 1 }));
  pipeline.load([
    service("web", {
      clusterIP: "10.96.0.1",
      externalIPs: range(externalIPs).map((i) => `192.0.${i >> 8}.${i & 255}`),
      ports: names,
      ...affinity && { sessionAffinity: "ClientIP" },
      ...ranges.length > 0 && {
        type: "LoadBalancer",
        loadBalancerSourceRanges: ranges.map((i) => `10.${2 * i}.0.0/16`),
      },
    }, ranges.length > 0 ? ingress("192.0.2.1") : {}),
    slice("web", range(endpoints).map((i) => `10.244.${(first + i) >> 8}.${(first + i) & 255}`), {
      ports: names,
    }),
  ]);
  return pipeline.desired.services.get("default/web") ?? [];
}

/** For each port its endpoints and its addresses. */
const sizes = (ports: Ports) =>
  ports.map(({ clusterEndpoints, clusterIPs, externalIPs }) => [
    clusterEndpoints.length,
    clusterIPs.length + externalIPs.length,
  ]);

const step = (before: Ports, wanted: Ports, most: number) =>
  limitStep(before, { wanted, most, stripped: (port) => port });

/** The steps from one state to another. */
function stepsTo(wanted: Ports, { most, before = [] }: { most: number; before?: Ports }): Ports[] {
  const steps: Ports[] = [];
  for (let isCut = true, ports = before; isCut && steps.length < 1_000;) {
    ({ ports, isCut } = step(ports, wanted, most));
    steps.push(ports);
  }
  assertEquals(steps.at(-1), wanted);
  return steps;
}

Deno.test("ports that do not change are the earlier objects", () => {
  const [before, wanted] = [portsOf({ ports: 2 }), portsOf({ ports: 3 })];
  const { ports, isCut } = step(before, wanted, 40);
  assertEquals([ports, isCut], [wanted, false]);
  assertEquals(ports.map((port, i) => port === before[i]), [true, true, false]);
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

Deno.test("old endpoints go in the first step, while new ones come in several", () => {
  const before = portsOf({ endpoints: 100 });
  const [first = []] = stepsTo(portsOf({ endpoints: 200, first: 50 }), { before, most: 50 });
  assertEquals(sizes(first), [[100, 1]]);
  assertEquals(first[0]?.clusterEndpoints.some(({ address }) => address === "10.244.0.1"), false);
});

Deno.test("addresses go in several steps, and keep their endpoints until then", () => {
  const before = portsOf({ endpoints: 10, externalIPs: 5 });
  const steps = stepsTo([], { before, most: 22 });
  assertEquals(steps.map(sizes), [[[10, 4]], [[10, 2]], []]);
});

Deno.test("addresses that stay longer have the old endpoints alone", () => {
  const before = portsOf({ endpoints: 1, externalIPs: 80 });
  const steps = stepsTo(portsOf({ endpoints: 100, first: 1 }), { before, most: 40 });
  const shrinking = [61, 41, 21].map((addresses) => [[1, addresses]]);
  assertEquals(steps.map(sizes), [...shrinking, [[40, 1]], [[80, 1]], [[100, 1]]]);
});

Deno.test("a port with very many endpoints goes at once", () => {
  assertEquals(stepsTo([], { before: portsOf({ endpoints: 100 }), most: 22 }), [[]]);
});

Deno.test("ports go in several steps", () => {
  const steps = stepsTo([], { before: portsOf({ endpoints: 1, ports: 5 }), most: 4 });
  assertEquals(steps.map((ports) => ports.length), [3, 1, 0]);
});

Deno.test("a port has old or new endpoints, however many ports change", () => {
  const before = portsOf({ endpoints: 3, ports: 20 });
  const wanted = portsOf({ endpoints: 3, first: 10, ports: 20 });
  for (const ports of stepsTo(wanted, { before, most: 4 })) {
    assertEquals(ports.length, 20);
    assertEquals(ports.every(({ clusterEndpoints: { length } }) => length > 0), true);
  }
});

Deno.test("ports that had no room come first in the next step", () => {
  let ports = portsOf({ endpoints: 1, ports: 5 });
  const changed = new Set<number>();
  for (const first of range(5)) {
    const next = step(ports, portsOf({ endpoints: 1, first: first + 1, ports: 5 }), 2).ports;
    for (const each of next) if (!ports.includes(each)) changed.add(each.port);
    ports = next;
  }
  assertEquals(changed.size, 5);
});

Deno.test("a port that has another name or number changes in one step", () => {
  const [port] = portsOf({ endpoints: 1 });
  if (!port) throw new Error("no port");
  const nodePort = { ...port, nodePort: 30_080 };
  for (const after of [{ ...nodePort, name: "other" }, { ...nodePort, port: 81 }]) {
    assertEquals(step([nodePort], [after], 1), { ports: [after], isCut: false });
  }
});

Deno.test("source ranges come in several steps, unless a client would lose its access", () => {
  const rangesOf = (before: Ports, ranges: readonly number[]) =>
    stepsTo(portsOf({ ranges }), { before, most: 4 }).map(([port]) => port?.sourceRanges.length);
  assertEquals(rangesOf([], range(10)), [4, 8, 10]);
  assertEquals(rangesOf(portsOf({ ranges: range(2) }), range(10)), [6, 10]);
  assertEquals(rangesOf(portsOf({ ranges: [0, 20] }), range(10)), [10]);
  assertEquals(rangesOf(portsOf({ externalIPs: 1 }), range(10)), [4, 8, 10]);
  const [open] = portsOf({ ranges: [0] });
  if (!open) throw new Error("no port");
  assertEquals(rangesOf([{ ...open, sourceRanges: [] }], range(10)), [10]);
});

/** The desired endpoints of `default/web`, sorted. */
const endpointsOf = ({ desired }: Pipeline) =>
  (desired.services.get("default/web")?.[0]?.clusterEndpoints ?? [])
    .map(({ address }) => address).sort();

/** Runs steps of at most 40 elements until nothing is left. @returns their number */
function grow(pipeline: Pipeline): number {
  for (let steps = 1;; steps++) {
    const { unfinished } = pipeline.desired.update(pipeline.cache, pipeline.cache.takeDirty(), 40);
    if (unfinished.size === 0) return steps;
    pipeline.cache.putBack(unfinished);
  }
}

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
  const { unfinished } = pipeline.desired.update(pipeline.cache, pipeline.cache.takeDirty(), 40);
  pipeline.cache.putBack(unfinished);
  pipeline.deliver(objects("b"));
  grow(pipeline);
  assertEquals(endpointsOf(pipeline), inZone("b", 100).flatMap((each) => each.addresses).sort());
});
