import { assertEquals } from "@std/assert";
import type { Difference } from "../../../lib/model/kernel/differences.ts";
import { compareContents } from "../../../lib/backend/nftables/compare.ts";
import { type Contents, desiredContents, NO_CONTENTS } from "../../../lib/backend/nftables/read.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { Kernel } from "./kernel.ts";
import { WEB_SERVICE, webSlice } from "../../support/web_service.ts";

/** The rules of some objects in a kernel of their own. */
class Table implements AsyncDisposable {
  readonly pipeline = new Pipeline({ configuration: { clusterCIDRs: ["10.244.0.0/16"] } });
  readonly dataplane: NftablesDataplane;

  private constructor(readonly kernel: Kernel) {
    this.dataplane = new NftablesDataplane(kernel.nft);
  }

  static async create(): Promise<Table> {
    return new Table(await Kernel.create());
  }

  async load(objects: readonly ApiObject[]): Promise<void> {
    await this.pipeline.apply(this.dataplane, objects);
  }

  /** `undefined`: there is no table. */
  async differences(): Promise<Difference[] | undefined> {
    const held = await this.kernel.contents();
    return held && compareContents(desiredContents(this.pipeline.desired), held);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kernel[Symbol.asyncDispose]();
  }
}

const STICKY: ApiObject = {
  ...WEB_SERVICE,
  metadata: { namespace: "shop", name: "sticky" },
  spec: {
    clusterIP: "10.96.0.11",
    sessionAffinity: "ClientIP",
    ports: [{ name: "http", port: 80 }],
  },
};

const TWO = ["10.244.1.1", "10.244.1.2"];

/** Things done by hand: a name, a script, and each difference: type, place, key, desired and held value. */
const CASES = `
an element that is gone is missing
delete element inet signpost services4 { 10.96.0.10 . tcp . 80 }
=> missing | services4 | 10.96.0.10 . tcp . 80 | goto cluster4-tcp-2

an element that is not wanted is extra
add element inet signpost cluster-ips4 { 10.96.0.99 }
=> extra | cluster-ips4 | 10.96.0.99

a slot that leads elsewhere is wrong
delete element inet signpost endpoints-tcp4 { 10.96.0.10 . 80 . 1 }
add element inet signpost endpoints-tcp4 { 10.96.0.10 . 80 . 1 : 10.244.1.9 . 8080 }
=> wrong | endpoints-tcp4 | 10.96.0.10 . 80 . 1 | 10.244.1.2 . 8080 | 10.244.1.9 . 8080

a chain that is gone is missing, and so is what led to it
delete element inet signpost nodeports4 { tcp . 30080 }
delete chain inet signpost nodeport4-tcp-2
=> missing | chain nodeport4-tcp-2
=> missing | nodeports4 | tcp . 30080 | goto nodeport4-tcp-2

a rule that was put in by hand is extra
insert rule inet signpost nat-prerouting ip saddr 203.0.113.7 accept
=> extra | chain nat-prerouting | ip saddr 203.0.113.7 accept

a rule with another target is missing and extra
add chain inet signpost external-by-hand
flush chain inet signpost nodeport4-tcp-2
add rule inet signpost nodeport4-tcp-2 jump mark-for-masquerade
add rule inet signpost nodeport4-tcp-2 drop
=> extra | chain external-by-hand
=> extra | chain nodeport4-tcp-2 | drop
=> missing | chain nodeport4-tcp-2 | goto pick-nodeport-endpoints4-tcp-2

rules in another order are wrong
flush chain inet signpost nodeport4-tcp-2
add rule inet signpost nodeport4-tcp-2 goto pick-nodeport-endpoints4-tcp-2
add rule inet signpost nodeport4-tcp-2 jump mark-for-masquerade
=> wrong | chain nodeport4-tcp-2 |  | rule 1: jump mark-for-masquerade | rule 1: goto pick-nodeport-endpoints4-tcp-2

a base chain that drops by policy is wrong
chain inet signpost filter-forward { policy drop; }
=> missing | chain filter-forward | type filter hook forward priority -1 policy accept
=> extra | chain filter-forward | type filter hook forward priority -1 policy drop

a table that is switched off is wrong
add table inet signpost { flags dormant; }
=> wrong | table inet signpost | flags |  | dormant

a base chain at another priority is missing and extra
delete chain inet signpost filter-forward
add chain inet signpost filter-forward { type filter hook forward priority 7; }
add rule inet signpost filter-forward ct state new jump no-endpoints
add rule inet signpost filter-forward ct state new jump cluster-ips
=> missing | chain filter-forward | type filter hook forward priority -1 policy accept
=> extra | chain filter-forward | type filter hook forward priority 7 policy accept

a counter, a set and a chain that signpost does not make are extra
add counter inet signpost hits
add set inet signpost blocked { type ipv4_addr; }
add chain inet signpost mine
=> extra | table inet signpost | counter hits
=> extra | blocked
=> extra | chain mine

a set that was made with other flags is wrong
flush chain inet signpost cluster-ips
delete set inet signpost cluster-ips4
add set inet signpost cluster-ips4 { type ipv4_addr; flags interval; }
add element inet signpost cluster-ips4 { 10.96.0.10, 10.96.0.11 }
add rule inet signpost cluster-ips ct status dnat return
add rule inet signpost cluster-ips fib daddr type local return
add rule inet signpost cluster-ips ip daddr @api-servers4 return
add rule inet signpost cluster-ips ip6 daddr @api-servers6 return
add rule inet signpost cluster-ips ip daddr @cluster-ips4 reject
add rule inet signpost cluster-ips ip6 daddr @cluster-ips6 reject
add rule inet signpost cluster-ips ip daddr @service-cidrs4 drop
add rule inet signpost cluster-ips ip6 daddr @service-cidrs6 drop
=> wrong | cluster-ips4 |  | set; type ipv4_addr | set; flags interval; type ipv4_addr

an element with another comment is wrong
delete element inet signpost nodeports4 { tcp . 30080 }
add element inet signpost nodeports4 {
  tcp . 30080 comment "by hand" : goto nodeport4-tcp-2
}
=> wrong | nodeports4 | tcp . 30080 | goto nodeport4-tcp-2 comment "shop/web:http" | goto nodeport4-tcp-2 comment "by hand"

a rule that refuses one family alone is not the rule that refuses both
flush chain inet signpost reject-traffic
add rule inet signpost reject-traffic reject with icmp port-unreachable
=> missing | chain reject-traffic | reject
=> extra | chain reject-traffic | reject with icmp port-unreachable
`;

for (const block of CASES.trim().split("\n\n")) {
  const [name = "", ...lines] = block.split("\n");
  const isExpected = (line: string) => line.startsWith("=> ");
  Deno.test(name, async () => {
    await using table = await Table.create();
    await table.load([WEB_SERVICE, webSlice(TWO), STICKY, webSlice(TWO, "sticky")]);
    assertEquals(await table.differences(), []);
    await table.kernel.script(lines.filter((line) => !isExpected(line)).join("\n"));
    const found = (await table.differences())?.map(({ type, in: place, key, desired, held }) =>
      `=> ${[type, place, key, desired, held].join(" | ").replace(/[ |]+$/, "")}`
    );
    assertEquals(found, lines.filter(isExpected));
  });
}

Deno.test("without the table there is nothing to compare", async () => {
  await using table = await Table.create();
  assertEquals(await table.differences(), undefined);
});

Deno.test("clients of session affinity are the kernel's own", async () => {
  await using table = await Table.create();
  await table.load([STICKY, webSlice(TWO, "sticky")]);
  const set = [...desiredContents(table.pipeline.desired).sets.keys()]
    .find((each) => each.startsWith("affinity4-"));
  await table.kernel.script(`add element inet signpost ${set} { 203.0.113.7 timeout 60s }`);
  assertEquals(await table.differences(), []);
});

Deno.test("a random choice in front of the look for the client is wrong", async () => {
  await using table = await Table.create();
  await table.load([STICKY, webSlice(TWO, "sticky")]);
  const [chain = "", rules = []] = [...desiredContents(table.pipeline.desired).chains]
    .find(([name]) => name.startsWith("affinity4-")) ?? [];
  const write = (all: readonly string[]) =>
    table.kernel.script(
      [
        `flush chain inet signpost ${chain}`,
        ...all.map((each) => `add rule inet signpost ${chain} ${each}`),
      ].join("\n"),
    );
  const [first = "", second = "", random = "", last = ""] = rules;
  await write([first, second, random, last]);
  assertEquals(await table.differences(), []);
  await write([random, first, second, last]);
  assertEquals((await table.differences())?.map(({ type, in: place }) => [type, place]), [
    ["wrong", `chain ${chain}`],
  ]);
});

Deno.test("a client of session affinity that never goes is extra", async () => {
  await using table = await Table.create();
  await table.load([STICKY, webSlice(TWO, "sticky")]);
  const set = [...desiredContents(table.pipeline.desired).sets.keys()]
    .find((each) => each.startsWith("affinity4-")) ?? "";
  await table.kernel.script(`add element inet signpost ${set} { 203.0.113.7 }`);
  assertEquals(await table.differences(), [
    { type: "extra", in: set, key: "203.0.113.7", desired: "", held: "" },
  ]);
});

Deno.test("forty endpoints in other slots are the same choice", async () => {
  await using table = await Table.create();
  const addresses = Array.from({ length: 40 }, (_, i) => `10.244.1.${i + 1}`);
  await table.load([WEB_SERVICE, webSlice(addresses.toReversed())]);
  await table.kernel.script(table.dataplane.full(new Shuffled(table.pipeline)).text);
  assertEquals(await table.differences(), []);
});

/** The same desired state with every list of endpoints turned around. */
class Shuffled {
  readonly node;
  readonly services;

  constructor({ desired }: Pipeline) {
    this.node = desired.node;
    this.services = new Map([...desired.services].map(([name, ports]) => [
      name,
      ports.map((port) => ({ ...port, clusterEndpoints: port.clusterEndpoints.toReversed() })),
    ]));
  }
}

/** A table with nothing but slots. */
function contents(slots: Readonly<Record<string, string>>): Contents {
  return {
    ...NO_CONTENTS,
    sets: new Map([[
      "endpoints-tcp4",
      new Map(Object.entries(slots).map(([key, data]) => [key, { data, remark: "" }])),
    ]]),
  };
}

Deno.test("slots of a hash that change places are wrong: they decide who goes where", () => {
  const slotsOf = (...data: readonly string[]) =>
    contents(Object.fromEntries(data.map((each, i) => [`10.96.0.1 . 80 . ${i}`, each])));
  const wanted = slotsOf("a . 1", "b . 1", "a . 1");
  assertEquals(compareContents(wanted, wanted), []);
  const found = compareContents(wanted, slotsOf("b . 1", "a . 1", "a . 1"));
  assertEquals(found.map(({ type, key }) => [type, key]), [
    ["wrong", "10.96.0.1 . 80 . 0"],
    ["wrong", "10.96.0.1 . 80 . 1"],
  ]);
});

Deno.test("a hole among the slots is missing", () => {
  const wanted = contents({ "10.96.0.1 . 80 . 0": "a . 1", "10.96.0.1 . 80 . 1": "b . 1" });
  const held = contents({ "10.96.0.1 . 80 . 1": "a . 1", "10.96.0.1 . 80 . 5": "b . 1" });
  const map = { in: "endpoints-tcp4" };
  assertEquals(compareContents(wanted, held), [
    { type: "missing", ...map, key: "10.96.0.1 . 80 . 0", desired: "b . 1", held: "" },
    { type: "extra", ...map, key: "10.96.0.1 . 80 . 5", desired: "", held: "b . 1" },
  ]);
});
