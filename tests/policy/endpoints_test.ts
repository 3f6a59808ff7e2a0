import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { findCandidates, indexPorts, toDestinations } from "../../lib/policy/endpoints.ts";
import type { Family } from "../../lib/model/values/address.ts";
import type { Destination } from "../../lib/model/kernel/desired.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import type {
  Endpoint,
  EndpointPort,
  EndpointSlice,
  ServicePort,
} from "../../lib/model/cluster/objects.ts";
import { modelEndpoint, modelSlice } from "../support/cluster.ts";

const PLACE = { nodeName: "here", zone: "" };
const HTTP: ServicePort = { name: "http", protocol: "tcp", port: 80, nodePort: 0 };

function endpoint(address: string, nodeName: string | undefined = "elsewhere"): Endpoint {
  return modelEndpoint(address, { nodeName });
}

function slice(
  name: string,
  endpoints: readonly Endpoint[],
  options: { readonly ports?: readonly EndpointPort[]; readonly family?: Family } = {},
): EndpointSlice {
  const ports = [{ name: "http", protocol: "tcp", port: 8080 }] as const;
  return modelSlice({ name, ports, endpoints, ...options });
}

/** Candidates as `address:port@node`. */
function find(slices: readonly EndpointSlice[], options: Partial<{
  readonly port: ServicePort;
  readonly family: Family;
}> = {}): string[] {
  const found = findCandidates(indexPorts(slices), {
    port: HTTP,
    family: 4,
    nodeName: "here",
    ...options,
  });
  return found.map(({ endpoint, port }) =>
    `${hostPort(endpoint.address, port)}@${endpoint.nodeName}`
  );
}

Deno.test("an endpoint that stands in several slices counts once", () => {
  const slices = [slice("a", [endpoint("10.0.0.1", "first")]), slice("b", [endpoint("10.0.0.1")])];
  assertEquals(find(slices), ["10.0.0.1:8080@first"]);
});

const ON_NODE = endpoint("10.0.0.1", "here");
const READY = { ...ON_NODE, nodeName: "elsewhere" };
const UNREADY = { ...ON_NODE, ready: false, serving: false };
const TERMINATING = { ...ON_NODE, ready: false, terminating: true };
/** Of every two the one that stands first counts, whatever their order in the slices. */
const BY_RANK: readonly Endpoint[] = [
  ON_NODE,
  READY,
  UNREADY,
  { ...UNREADY, nodeName: "elsewhere" },
  TERMINATING,
  { ...TERMINATING, nodeName: "elsewhere" },
];

Deno.test("an entry that does not terminate counts before others of its address", () => {
  const options = { port: HTTP, family: 4, nodeName: "here" } as const;
  BY_RANK.forEach((better, i) => {
    for (const worse of BY_RANK.slice(i + 1)) {
      for (const pair of [[better, worse], [worse, better]]) {
        const [inOne] = findCandidates(indexPorts([slice("a", pair)]), options);
        const [inTwo] = findCandidates(
          indexPorts(pair.map((each, n) => slice(`${n}`, [each]))),
          options,
        );
        assertEquals([inOne?.endpoint, inTwo?.endpoint], [better, better]);
      }
    }
  });
});

Deno.test("one address with two target ports is two endpoints", () => {
  const ports: EndpointPort[] = [8080, 9090].map((port) => ({
    name: "http",
    protocol: "tcp",
    port,
  }));
  const slices = ports.map((port, i) => slice(`${i}`, [endpoint("10.0.0.1")], { ports: [port] }));
  assertEquals(find(slices), ["10.0.0.1:8080@elsewhere", "10.0.0.1:9090@elsewhere"]);
  const inOne = [slice("a", [endpoint("10.0.0.1")], { ports })];
  assertEquals(find(inOne), ["10.0.0.1:8080@elsewhere"], "a port name counts once a slice");
});

Deno.test("each slice port is read once, however many Service ports there are", () => {
  let reads = 0;
  const ports = Array.from({ length: 100 }, (_, i) => ({
    protocol: "tcp" as const,
    port: i + 1,
    get name(): string {
      reads++;
      return `p${i}`;
    },
  }));
  const index = indexPorts([slice("a", [endpoint("10.0.0.1")], { ports })]);
  for (let i = 0; i < 100; i++) {
    const port = { name: `p${i}`, protocol: "tcp" as const };
    assertEquals(findCandidates(index, { port, family: 4, nodeName: "here" }).length, 1);
  }
  assertEquals(reads, 100);
});

Deno.test("slices may map one port name to different numbers", () => {
  const at = (port: number): EndpointPort[] => [{ name: "http", protocol: "tcp", port }];
  const slices = [
    slice("a", [endpoint("10.0.0.1")], { ports: at(8080) }),
    slice("b", [endpoint("10.0.0.2")], { ports: at(9090) }),
  ];
  assertEquals(find(slices), ["10.0.0.1:8080@elsewhere", "10.0.0.2:9090@elsewhere"]);
});

Deno.test("ports are matched by name and protocol", () => {
  const ports: EndpointPort[] = [
    { name: "http", protocol: "udp", port: 1 },
    { name: "https", protocol: "tcp", port: 2 },
    { name: "", protocol: "tcp", port: 3 },
  ];
  const slices = [
    slice("a", [endpoint("10.0.0.1")], { ports }),
    slice("b", [endpoint("fd00::1")], { family: 6 }),
  ];
  assertEquals(find(slices), []);
  assertEquals(find(slices, { port: { ...HTTP, name: "" } }), ["10.0.0.1:3@elsewhere"]);
  assertEquals(find(slices, { port: { ...HTTP, protocol: "udp" } }), ["10.0.0.1:1@elsewhere"]);
  assertEquals(find(slices, { family: 6 }), ["[fd00::1]:8080@elsewhere"]);
});

/** The destinations of endpoints that are named by number, in whatever order. */
function assign(
  numbers: Iterable<number>,
  previous: readonly Destination[] = [],
  nodeName?: string,
): readonly Destination[] {
  const endpoints = [...numbers]
    .map((number) => endpoint(`10.0.${number >> 8}.${number & 255}`, nodeName));
  const candidates = findCandidates(indexPorts([slice("web-1", endpoints)]), {
    port: HTTP,
    family: 4,
    ...PLACE,
  });
  return toDestinations(candidates, { previous, place: PLACE, isShortCircuit: false });
}

const keys = (list: readonly Destination[]) =>
  list.map(({ address, port }) => hostPort(address, port));
/** By address: `10.0.0.1:8080` before `10.0.0.10:8080`. All have the same port. */
const sorted = (list: readonly string[]) =>
  list.map((each) => each.replace(":8080", "")).sort().map((each) => `${each}:8080`);

Deno.test("an endpoint of an unknown node is not local", () => {
  const chosen = ["here", "elsewhere", undefined].map((nodeName, i) => ({
    endpoint: { ...endpoint(`10.0.0.${i}`), nodeName },
    port: 80,
  }));
  const find = (isShortCircuit: boolean) =>
    toDestinations(chosen, { previous: [], place: PLACE, isShortCircuit });
  assertEquals(find(false).map(({ local }) => local), [true, false, false]);
  assertEquals(find(false).map(({ hairpin }) => hairpin), [true, false, true]);
  assertEquals(find(true).map(({ hairpin }) => hairpin), [true, true, true]);
});

const distinct = (constraints: { readonly minLength: number; readonly maxLength: number }) =>
  fc.uniqueArray(fc.integer({ min: 0, max: 999 }), constraints);

Deno.test("up to 32 endpoints are in the order of their addresses, whatever was before", () => {
  const few = distinct({ minLength: 0, maxLength: 32 });
  const before = distinct({ minLength: 0, maxLength: 60 });
  fc.assert(fc.property(few, before, (numbers, previous) => {
    const destinations = keys(assign(numbers, assign(previous)));
    assertEquals(destinations, sorted(keys(assign(numbers))));
  }));
});

Deno.test("more than 32 endpoints are in the order of their addresses at first", () => {
  fc.assert(fc.property(distinct({ minLength: 33, maxLength: 80 }), (numbers) => {
    const destinations = keys(assign(numbers));
    assertEquals(destinations, sorted(destinations));
  }));
});

/** Slots whose content differs. */
function moved(before: readonly string[], after: readonly string[]): number {
  const length = Math.max(before.length, after.length);
  return Array.from({ length }, (_, i) => before[i] !== after[i]).filter(Boolean).length;
}

Deno.test("a change among more than 32 endpoints moves two slots for each", () => {
  const sizes = { minLength: 40, maxLength: 120 };
  const few = { minLength: 0, maxLength: 4 };
  fc.assert(fc.property(
    distinct(sizes),
    fc.array(fc.tuple(distinct(few), fc.nat(6)), { minLength: 1, maxLength: 5 }),
    (start, steps) => {
      let numbers = new Set(start);
      let slots = assign(numbers);
      for (const [coming, going] of steps) {
        const next = new Set([...[...numbers].slice(going), ...coming]);
        if (next.size <= 32) return;
        const changes = numbers.symmetricDifference(next).size;
        const after = assign(next, slots);
        assertEquals(sorted(keys(after)), sorted([...next].map((n) => keys(assign([n])).join())));
        assert(moved(keys(slots), keys(after)) <= 2 * changes);
        [numbers, slots] = [next, after];
      }
    },
  ));
});

/** Forty endpoints whose text order is that of their numbers. */
const FORTY = Array.from({ length: 40 }, (_, i) => 100 + i);

Deno.test("the last of more than 32 endpoints replaces one that goes", () => {
  const slots = assign(FORTY);
  const without = assign(FORTY.filter((each) => each !== 107), slots);
  assertEquals(moved(keys(slots), keys(without)), 2);
  assertEquals(without[7], slots[39]);
  const back = assign(FORTY, without);
  assertEquals(moved(keys(without), keys(back)), 1);
  assertEquals(back[39], slots[7]);
});

Deno.test("one endpoint that takes the place of another takes its slot", () => {
  const slots = assign(FORTY);
  const after = assign([...FORTY.filter((each) => each !== 107), 500], slots);
  assertEquals(moved(keys(slots), keys(after)), 1);
  assertEquals(after[7]?.address, "10.0.1.244");
});

Deno.test("an endpoint that keeps its slot is described as it is now", () => {
  const slots = assign(FORTY);
  const after = assign(FORTY, slots, "here");
  assertEquals(keys(after), keys(slots));
  assertEquals(after.every(({ local }) => local), true);
});
