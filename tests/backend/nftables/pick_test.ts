import { assert, assertEquals } from "@std/assert";
import { PROBE_SERVICES } from "../../../lib/backend/nftables/probe.ts";
import type { TableObject } from "../../../lib/backend/nftables/table.ts";
import { maglevTable, pickFor } from "../../../lib/backend/nftables/pick.ts";
import { type Scheduler, slotsFor } from "../../../lib/model/cluster/scheduler.ts";
import { destination } from "../../support/cluster.ts";

/** The objects that choose an endpoint for the cluster IP of the service port `default/sNUMBER:http`. */
function picked(
  number: number,
  { count, scheduler }: { readonly count: number; readonly scheduler?: Scheduler },
): readonly TableObject[] {
  const [port] = PROBE_SERVICES;
  if (!port) throw new Error("no port");
  const address = `10.96.${number >> 8}.${number & 255}`;
  const pick = pickFor({
    ...port,
    name: `default/s${number}:http`,
    affinitySeconds: 0,
    clusterEndpoints: Array.from({ length: count }, (_, i) => destination(`10.244.0.${i}`)),
    ...scheduler && { scheduler },
  }, {
    policy: "Cluster",
    map: "endpoints",
    frontend: {
      kind: "vip",
      key: { type: "frontend", address, protocol: port.protocol, port: 80 },
    },
  });
  if (!pick) throw new Error("no endpoints");
  return pick.objects;
}

/** The maps that rules look into, the maps that are declared, and those that slots are in. */
function maps(objects: readonly TableObject[]) {
  const rules = objects.flatMap((each) => each.type === "chain" ? each.rules : []);
  return {
    looked: rules.map((rule) => /map @(\S+)$/.exec(rule)?.[1]),
    declared: objects.flatMap((each) => each.type === "set" ? [each.name] : []),
    filled: objects.flatMap((each) => each.type === "slots" ? [each.set.name] : []),
  };
}

const NUMBERS = Array.from({ length: 1_000 }, (_, i) => i);
const TURNS: Scheduler = { type: "round-robin" };

Deno.test("round-robin: no map is named by many chains", () => {
  const chains = new Map<string, number>();
  for (const number of NUMBERS) {
    const { looked, declared, filled } = maps(picked(number, { count: 3, scheduler: TURNS }));
    const [map = ""] = declared;
    assertEquals({ looked, declared, filled }, {
      looked: [map, map],
      declared: [map],
      filled: [map],
    });
    chains.set(map, (chains.get(map) ?? 0) + 1);
  }
  assert(!chains.has("endpoints-tcp4"), "the map of the shared chains");
  assertEquals(chains.size, 64);
  assert(Math.max(...chains.values()) <= 32, "twice the mean");
});

Deno.test("round-robin: slots stay in their map when endpoints change", () => {
  const names = new Set<string>();
  for (const number of NUMBERS) {
    const one = picked(number, { count: 1, scheduler: TURNS });
    assertEquals(maps(one).filled, maps(picked(number, { count: 2, scheduler: TURNS })).filled);
    for (const each of one) if (each.type === "chain") names.add(each.name);
  }
  assertEquals(names.size, 64);
});

Deno.test("schedulers with shared chains have one map", () => {
  const schedulers: readonly (Scheduler | undefined)[] = [
    undefined,
    { type: "consistent-hash", hash: "source", tableSize: 11 },
  ];
  for (const scheduler of schedulers) {
    const all = NUMBERS.slice(0, 10).map((number) =>
      maps(picked(number, { count: 3, ...scheduler && { scheduler } })).filled
    );
    assertEquals(new Set(all.flat()), new Set(["endpoints-tcp4"]));
  }
});

interface Named {
  readonly address: string;
  readonly port: number;
}

function endpoints(count: number): Named[] {
  return Array.from({ length: count }, (_, i) => ({
    address: `10.244.${i >> 6}.${2 + (i & 63)}`,
    port: 8080,
  }));
}

/** How many slots each endpoint has. */
function shares(table: readonly Named[]): number[] {
  return [...Map.groupBy(table, ({ address }) => address).values()].map((slots) => slots.length);
}

Deno.test("the table follows from the endpoints alone", () => {
  const five = endpoints(5);
  const table = maglevTable(five, 31);
  assertEquals(maglevTable([...five].reverse(), 31), table);
  // Nodes of two versions must agree: these numbers are not to change.
  assertEquals(
    table.map((each) => five.indexOf(each)).join(" "),
    "2 4 4 0 2 0 4 0 2 2 4 1 4 0 0 1 2 1 3 3 1 3 3 4 2 1 0 3 0 3 1",
  );
  assertEquals(maglevTable([], 31), []);
  assertEquals(maglevTable(five.slice(0, 1), 2), [five[0], five[0]]);
});

for (const [count, size] of [[3, 251], [10, 251], [100, 251], [251, 251], [1000, 1021]] as const) {
  Deno.test(`${size} slots are shared by ${count} endpoints alike, give or take one`, () => {
    const table = maglevTable(endpoints(count), size);
    assertEquals(table.length, size);
    const all = shares(table);
    assertEquals(all.length, count);
    assertEquals([...new Set(all)].sort((a, b) => a - b), [
      ...new Set([Math.floor(size / count), Math.ceil(size / count)]),
    ]);
  });
}

/** Of the slots whose endpoint stays, the part that gets another one: on average, and at most. */
function moved(count: number, size: number): { readonly mean: number; readonly worst: number } {
  const all = endpoints(count);
  const before = maglevTable(all, size);
  const parts = all.map((gone) => {
    const after = maglevTable(all.filter((each) => each !== gone), size);
    const kept = before.flatMap((each, slot) => each === gone ? [] : [each === after[slot]]);
    return kept.filter((same) => !same).length / kept.length;
  });
  return { mean: parts.reduce((a, b) => a + b) / parts.length, worst: Math.max(...parts) };
}

for (
  const [count, size, mean, worst] of [
    [2, 251, 0, 0],
    [10, 251, 0.07, 0.1],
    [100, 251, 0.06, 0.1],
    [100, 1021, 0.04, 0.06],
  ] as const
) {
  Deno.test(`where one of ${count} endpoints goes, few of ${size} slots of the others move`, () => {
    const part = moved(count, size);
    assert(part.mean <= mean, `${part.mean} on average`);
    assert(part.worst <= worst, `${part.worst} at most`);
  });
}

Deno.test("a table has a slot for each endpoint: where there are more, it grows", () => {
  const scheduler = { type: "consistent-hash", hash: "source", tableSize: 251 } as const;
  const slots = [0, 1, 251, 252, 5000].map((count) => slotsFor(count, scheduler));
  assertEquals(slots, [0, 251, 251, 509, 8191]);
  assertEquals([0, 7].map((count) => slotsFor(count, undefined)), [0, 7]);
  assertEquals(slotsFor(7, { type: "round-robin" }), 7);
});
