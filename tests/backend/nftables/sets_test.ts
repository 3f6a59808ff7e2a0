import { assert, assertEquals } from "@std/assert";
import { tableOf } from "../../../lib/backend/nftables/delta.ts";
import { elementsOf } from "../../../lib/backend/nftables/table.ts";
import {
  fixedSets,
  type FrontendKey,
  type Key,
  parseKey,
  printKey,
  printListedKey,
  ROWS,
  setNamed,
  type TableSet,
  tableSet,
} from "../../../lib/backend/nftables/sets.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { backendOf } from "../../support/modes.ts";
import { stateOf } from "../../conntrack/states.ts";
import { readCases, runCase } from "../golden.ts";
import { wordsOf } from "../../support/table.ts";

const VIP: FrontendKey = { type: "frontend", address: "10.96.0.1", protocol: "udp", port: 53 };
const VIP6: FrontendKey = { type: "frontend", address: "fd00::1", protocol: "tcp", port: 443 };
const NODE_PORT: FrontendKey = {
  type: "frontend",
  address: undefined,
  protocol: "sctp",
  port: 30053,
};

/** The parts of sets of virtual IPs, and of node ports. */
const VIPS4 = { frontend: "vip", family: 4 } as const;
const VIPS6 = { frontend: "vip", family: 6 } as const;
const NODE_PORTS4 = { frontend: "nodeport", family: 4 } as const;
const NODE_PORTS6 = { frontend: "nodeport", family: 6 } as const;

/** Keys with their texts. */
const AT_VIP = [VIP, "10.96.0.1 . udp . 53"] as const;
const AT_VIP6 = [VIP6, "fd00::1 . tcp . 443"] as const;
const AT_NODE_PORT = [NODE_PORT, "sctp . 30053"] as const;
const text = (text: string) => [{ type: "text", text }, text] as const;
const SLOT_AT_VIP = [{ type: "slot", frontend: VIP, slot: 2 }, "10.96.0.1 . 53 . 2"] as const;
const SLOT_AT_NODE_PORT = [{ type: "slot", frontend: NODE_PORT, slot: 0 }, "30053 . 0"] as const;
const UDP_SLOTS4 = { ...VIPS4, protocol: "udp" } as const;
const SCTP_SLOTS6 = { ...NODE_PORTS6, protocol: "sctp" } as const;

/** A set, its name, one of its keys, and the key's text. */
const CASES: readonly (readonly [TableSet, string, Key, string])[] = [
  [tableSet("transactions", {}), "transactions", ...text("0x1f")],
  [tableSet("services", VIPS4), "services4", ...AT_VIP],
  [tableSet("services", NODE_PORTS6), "nodeports6", ...AT_NODE_PORT],
  [tableSet("shortCircuits", NODE_PORTS4), "nodeport-short-circuits4", ...AT_NODE_PORT],
  [tableSet("noEndpoints", VIPS6), "no-endpoints6", ...AT_VIP6],
  [tableSet("noEndpoints", NODE_PORTS4), "no-endpoint-nodeports4", ...AT_NODE_PORT],
  [tableSet("clusterIPs", { family: 4 }), "cluster-ips4", ...text("10.96.0.1")],
  [tableSet("serviceCIDRs", { family: 6 }), "service-cidrs6", ...text("fd00:10:96::/112")],
  [tableSet("hairpins", { family: 4 }), "hairpins4", ...text("10.244.0.1 . 10.244.0.1")],
  [tableSet("endpoints", UDP_SLOTS4), "endpoints-udp4", ...SLOT_AT_VIP],
  [tableSet("localEndpoints", SCTP_SLOTS6), "nodeport-local-endpoints-sctp6", ...SLOT_AT_NODE_PORT],
  [tableSet("endpoints", { ...UDP_SLOTS4, shard: 0 }), "endpoints-udp4-turns-0", ...SLOT_AT_VIP],
  [
    tableSet("localEndpoints", { ...SCTP_SLOTS6, shard: 63 }),
    "nodeport-local-endpoints-sctp6-turns-63",
    ...SLOT_AT_NODE_PORT,
  ],
  [tableSet("apiServers", { family: 4 }), "api-servers4", ...text("192.0.2.1")],
  [tableSet("localhostRejects", { family: 4 }), "localhost-nodeports4", ...AT_NODE_PORT],
  [tableSet("firewalls", { family: 6 }), "firewalls6", ...AT_VIP6],
  [tableSet("firewallDrops", { family: 6 }), "firewall-drops6", ...AT_VIP6],
  [
    tableSet("sourceRanges", { protocol: "tcp", family: 6 }),
    "source-ranges-tcp6",
    { type: "sourceRange", frontend: VIP6, range: "fd00::/64" },
    "fd00::1 . 443 . fd00::/64",
  ],
  [tableSet("fastPath", {}), "fast-path", ...text("eth0")],
  [tableSet("accelerated", VIPS4), "accelerated4", ...AT_VIP],
  [tableSet("accelerated", NODE_PORTS6), "accelerated-nodeports6", ...AT_NODE_PORT],
  [
    tableSet("affinityClients", { family: 4, endpoint: "5OJB2KTY-ns/svc/tcp/http__10.0.0.1.80" }),
    "affinity4-5OJB2KTY-ns/svc/tcp/http__10.0.0.1.80",
    ...text("10.244.0.9"),
  ],
];

for (const [set, name, key, text] of CASES) {
  Deno.test(`the table of sets finds the set ${name} by its name`, () => {
    assertEquals(set.name, name);
    assertEquals(setNamed(name), set);
  });

  Deno.test(`a key of ${name} reads ${text}`, () => {
    assertEquals(printKey(key), text);
    assertEquals(parseKey(set, text), key);
  });
}

Deno.test("a name of another program's set is in no row", () => {
  const names = wordsOf(`
    services services5 endpoints-tcp endpoints-icmp4 affinity toString endpoints-tcp4-turns-64
    endpoints-tcp4-turns-07 endpoints-tcp4-turns-1-turns-2 services4-turns-1 services4-1
    nodeports4-1 short-circuits4-1 source-ranges-tcp4-turns-1
  `);
  for (const name of names) assertEquals(setNamed(name), undefined, name);
});

Deno.test("every element of the golden cases has a key of its set's type", async () => {
  let count = 0;
  for (const golden of readCases()) {
    for await (const { desired } of runCase(golden, backendOf("nftables"))) {
      for (const { set, key } of elementsOf(atOnce(tableOf(desired)).elements)) {
        const text = printListedKey(key);
        const parsed = parseKey(set, text);
        assertEquals(key.type, set.keyType, set.name);
        assertEquals(parsed && printListedKey(parsed), text, set.name);
        count++;
      }
    }
  }
  assert(count > 0);
});

Deno.test("every role of the table has a case here", () => {
  const roles = new Set<string>(CASES.map(([{ role }]) => role));
  assertEquals(Object.keys(ROWS).filter((role) => !roles.has(role)), []);
});

Deno.test("each set and map has one name", () => {
  const stems = Object.values(ROWS).flatMap(({ stems }) => Object.values(stems));
  assertEquals(new Set(stems).size, stems.length);
});

Deno.test("a key that no frontend has is not read", () => {
  const services = tableSet("services", VIPS4);
  const endpoints = tableSet("endpoints", { ...VIPS4, protocol: "tcp" });
  for (const text of ["", "10.96.0.1", "10.96.0.1 . icmp . 80", "10.96.0.1 . tcp . 80-90"]) {
    assertEquals(parseKey(services, text), undefined, text);
  }
  assertEquals(parseKey(endpoints, "10.96.0.1 . 80 . x"), undefined);
});

Deno.test("nft lists protocols as numbers", () => {
  assertEquals(parseKey(tableSet("services", VIPS4), "10.96.0.1 . 17 . 53"), VIP);
  const range = { type: "sourceRange", frontend: VIP, range: "198.51.100.7/32" } as const;
  assertEquals(printKey(range), "10.96.0.1 . 53 . 198.51.100.7/32");
  assertEquals(printListedKey(range), "10.96.0.1 . 53 . 198.51.100.7");
});

Deno.test("every table has these sets, in this order", () => {
  const node = { ...stateOf([]).node, ipFamilies: [6] as const, countsConnections: false };
  assertEquals(fixedSets(node).map(({ kind, name }) => `${kind} ${name}`), [
    "set transactions",
    "map services6",
    "map short-circuits6",
    "map no-endpoints6",
    "map nodeports6",
    "map nodeport-short-circuits6",
    "map no-endpoint-nodeports6",
    "set cluster-ips6",
    "set service-cidrs6",
    "set api-servers6",
    "set hairpins6",
  ]);
});
