import { assert, assertEquals } from "@std/assert";
import { PROBE_SERVICES } from "../../../lib/backend/nftables/probe.ts";
import type { TableObject } from "../../../lib/backend/nftables/table.ts";
import { pickFor } from "../../../lib/backend/nftables/pick.ts";
import type { Scheduler } from "../../../lib/model/cluster/scheduler.ts";
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
