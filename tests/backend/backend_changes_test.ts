import { assertEquals } from "@std/assert";
import type { Change } from "../../lib/model/kernel/differences.ts";
import { backendOf, type Mode } from "../support/modes.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { CLUSTER, endpoint, LOCAL, REMOTE, slice, web } from "../explain/cluster.ts";

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
  const changesOf = backendOf(mode).rules.changesFrom(pipeline.desired);
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

Deno.test("a change deletes nothing that others still need", () => {
  const other = web({ name: "other", clusterIP: "10.96.0.11" });
  const ofOther = slice([LOCAL, REMOTE], { service: "other" });
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
      "- rule IPv4 filter KUBE-FORWARD -s 10.244.0.11/32 -d 10.244.0.11/32 -m conntrack " +
      "--ctstate DNAT -j ACCEPT (shop/web:http)",
      "- rule IPv4 nat KUBE-SVC-X -p tcp -j DNAT --to-destination 10.244.0.11:8080 (shop/web:http)",
      '+ rule IPv4 filter KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http ' +
      'has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable ' +
      "(shop/web:http)",
    ],
  );
});
