import { assertEquals } from "@std/assert";
import { kernelChanges } from "../../lib/backend/nftables/kernel_rules.ts";
import { iptablesKernelChanges } from "../../lib/backend/iptables/kernel_rules.ts";
import type { Change } from "../../lib/model/kernel/differences.ts";
import { fullScript } from "../../lib/backend/iptables/script/script.ts";
import { parseSaved } from "../../lib/backend/iptables/kernel/saved.ts";
import type { Family } from "../../lib/model/values/address.ts";
import type { DesiredState } from "../../lib/model/kernel/desired.ts";
import { NO_CONTENTS, parsingListing } from "../../lib/backend/nftables/read.ts";
import { NftablesDataplane } from "../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../lib/backend/nftables/nft.ts";
import { Kernel } from "./nftables/kernel.ts";
import { backendOf, type Mode, SILENT_RUNNER } from "../support/modes.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { CLUSTER, endpoint, LOCAL, REMOTE, slice, web, worldOf } from "../explain/cluster.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";

const THIRD = endpoint("10.244.2.11", "node-3");

/** Changes as lines, `+` or `-` first. */
function lines(changes: readonly Change[]): string[] {
  return changes.map(({ change, type, in: place, key, data, service }) =>
    [change === "add" ? "+" : "-", type, place, key, data && `: ${data}`, service && `(${service})`]
      .filter((part) => part !== "").join(" ")
  );
}

function step(
  before: readonly ApiObject[],
  after: readonly ApiObject[],
  mode: Mode = "nftables",
): string[] {
  const pipeline = new Pipeline({ mode });
  pipeline.load([...CLUSTER, ...before]);
  const changesOf = backendOf(mode).changesFrom(pipeline.desired);
  const { change } = pipeline.load([...CLUSTER, ...after]);
  return lines(changesOf({ change, node: pipeline.desired.node }));
}

Deno.test("an endpoint that goes is its slot, and the number of endpoints", () => {
  assertEquals(step([web(), slice([LOCAL, REMOTE, THIRD])], [web(), slice([LOCAL, REMOTE])]), [
    "- element endpoints-tcp4 10.96.0.10 . 80 . 2 : 10.244.2.11 . 8080 (shop/web:http)",
    "- element services4 10.96.0.10 . tcp . 80 : goto pick-endpoints4-tcp-3 (shop/web:http)",
    "- chain pick-endpoints4-tcp-3",
    "+ chain pick-endpoints4-tcp-2",
    "+ rule pick-endpoints4-tcp-2 dnat ip to ip daddr . tcp dport . numgen random mod 2 map " +
    "@endpoints-tcp4",
    "+ rule pick-endpoints4-tcp-2 dnat ip to ip daddr . tcp dport . numgen random mod 1 map " +
    "@endpoints-tcp4",
    "+ element services4 10.96.0.10 . tcp . 80 : goto pick-endpoints4-tcp-2 (shop/web:http)",
  ]);
});

Deno.test("what others still need is not deleted, and nothing changed is nothing", () => {
  const other: ApiObject = {
    kind: "Service",
    metadata: { namespace: "shop", name: "other" },
    spec: { clusterIP: "10.96.0.11", ports: [{ name: "http", port: 80 }] },
  };
  const ofOther = slice([LOCAL, REMOTE], {
    metadata: {
      namespace: "shop",
      name: "other-1",
      labels: { "kubernetes.io/service-name": "other" },
    },
  });
  const both = [web(), slice([LOCAL, REMOTE]), other, ofOther];
  assertEquals(step(both, [other, ofOther]), [
    "- element endpoints-tcp4 10.96.0.10 . 80 . 0 : 10.244.0.11 . 8080 (shop/web:http)",
    "- element endpoints-tcp4 10.96.0.10 . 80 . 1 : 10.244.1.11 . 8080 (shop/web:http)",
    "- element services4 10.96.0.10 . tcp . 80 : goto pick-endpoints4-tcp-2 (shop/web:http)",
    "- element cluster-ips4 10.96.0.10 (shop/web:http)",
  ]);
  assertEquals(step(both, both), []);
});

Deno.test("in iptables mode, changes are rules with their Service", () => {
  const changes = step([web(), slice([LOCAL])], [web(), slice([])], "iptables");
  assertEquals(
    changes.map((line) => line.replace(/KUBE-SVC-\w+/g, "KUBE-SVC-X")),
    [
      '- rule IPv4 nat KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http ' +
      'cluster IP" -m tcp --dport 80 -j KUBE-SVC-X (shop/web:http)',
      "- rule IPv4 nat KUBE-SEP-HAIRPIN -s 10.244.0.11/32 -d 10.244.0.11/32 -j KUBE-MARK-MASQ " +
      "(shop/web:http)",
      "- rule IPv4 nat KUBE-SVC-X -p tcp -j DNAT --to-destination 10.244.0.11:8080 (shop/web:http)",
      '+ rule IPv4 filter KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http ' +
      'has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable ' +
      "(shop/web:http)",
    ].map((line) => line),
  );
});

/** What a kernel lists that holds the rules of some objects. */
async function listingOf(objects: readonly ApiObject[]): Promise<string> {
  await using kernel = await Kernel.create();
  const { state } = worldOf(objects).world;
  await kernel.script(new NftablesDataplane(new Nft(SILENT_RUNNER)).full(state).text);
  return await kernel.nft.listTable();
}

function against(listing: string, objects: readonly ApiObject[]) {
  const held = atOnce(parsingListing(listing)) ?? NO_CONTENTS;
  const { changes, warnings } = kernelChanges(worldOf(objects).world.state, held);
  return { changes: lines(changes), warnings };
}

Deno.test("against the kernel, a Service's own elements are compared, and no other's", async () => {
  const other: ApiObject = {
    kind: "Service",
    metadata: { namespace: "shop", name: "other" },
    spec: { clusterIP: "10.96.0.11", externalIPs: ["192.0.2.30"], ports: [{ port: 80 }] },
  };
  const listing = await listingOf([web(), slice([LOCAL, REMOTE]), other]);
  assertEquals(against(listing, [web(), slice([LOCAL, REMOTE])]), { changes: [], warnings: [] });
  assertEquals(against(listing, [web({ externalIPs: ["192.0.2.30"] }), slice([REMOTE, THIRD])]), {
    changes: [
      "- element endpoints-tcp4 10.96.0.10 . 80 . 0 : 10.244.0.11 . 8080 (shop/web:http)",
      "+ chain external4-tcp-2",
      "+ element endpoints-tcp4 10.96.0.10 . 80 . 0 : 10.244.2.11 . 8080 (shop/web:http)",
    ],
    warnings: [
      "shop/web:http wants IPv4 192.0.2.30 . tcp . 80, which belongs to shop/other: the older " +
      "Service keeps it",
    ],
  });
});

Deno.test("against the kernel, an address that a Service gives up is deleted", async () => {
  const listing = await listingOf([
    web({ externalIPs: ["192.0.2.30"], type: "NodePort" }),
    slice([LOCAL]),
  ]);
  const { changes } = against(listing, [web(), slice([LOCAL])]);
  assertEquals(changes, [
    "- element endpoints-tcp4 192.0.2.30 . 80 . 0 : 10.244.0.11 . 8080 (shop/web:http)",
    "- element services4 192.0.2.30 . tcp . 80 : goto external4-tcp-1 (shop/web:http)",
  ]);
});

Deno.test("against a kernel without the table, everything is to add", () => {
  const { changes } = against("", [web(), slice([LOCAL])]);
  assertEquals(changes.every((line) => line.startsWith("+ ")), true);
  assertEquals(
    changes.includes(
      "+ element services4 10.96.0.10 . tcp . 80 : goto cluster4-tcp-1 (shop/web:http)",
    ),
    true,
  );
});

Deno.test("against iptables rules, a Service's own rules are compared", () => {
  const options = { families: [4], tcpBeLiberal: false } as const;
  const stateOf = (objects: readonly ApiObject[]): DesiredState =>
    worldOf(objects, { mode: "iptables" }).world.state;
  const { text } = fullScript(stateOf([web(), slice([LOCAL])]), options);
  const held = new Map([[4 as Family, atOnce(parseSaved(text.replace(/^-I (\S+) /gm, "-A $1 ")))]]);
  assertEquals(iptablesKernelChanges(stateOf([web(), slice([LOCAL])]), held), []);
  const changes = lines(iptablesKernelChanges(stateOf([web(), slice([REMOTE])]), held));
  assertEquals(changes.map((line) => line.replace(/KUBE-SVC-\w+/g, "KUBE-SVC-X")), [
    "- rule IPv4 nat KUBE-SVC-X -p tcp -j DNAT --to-destination 10.244.0.11:8080 (shop/web:http)",
    "+ rule IPv4 nat KUBE-SVC-X -p tcp -j DNAT --to-destination 10.244.1.11:8080 (shop/web:http)",
  ]);
});
