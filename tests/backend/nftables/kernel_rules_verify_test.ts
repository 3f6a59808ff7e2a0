import { assertEquals } from "@std/assert";
import { nftablesRules } from "../../../lib/backend/nftables/kernel_rules.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Kernel } from "./kernel.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { service } from "../../support/cluster.ts";

/** A Service whose ports have the numbers of protocols. */
const RANGED = service({
  namespace: "shop",
  type: "LoadBalancer",
  clusterIP: "10.96.0.10",
  clusterIPs: ["10.96.0.10", "fd00:10:96::10"],
  ports: [
    { name: "six", port: 6 },
    { name: "seventeen", port: 17, protocol: "UDP" },
    { name: "sctp", port: 132, protocol: "SCTP" },
  ],
  loadBalancerSourceRanges: ["198.51.100.0/24", "203.0.113.7/32", "2001:db8::/33"],
  ingress: ["192.0.2.10", "2001:db8:1::10"],
});

/** Writes the Service's rules. @returns a comparison of the kernel's rules with the desired ones */
async function applied(kernel: Kernel) {
  const pipeline = new Pipeline();
  await pipeline.apply(new NftablesDataplane(kernel.nft), [RANGED]);
  return async () => nftablesRules(await kernel.contents()).compare(pipeline.desired).differences;
}

Deno.test("a missing source range names its Service", async () => {
  await using kernel = await Kernel.create();
  const look = await applied(kernel);
  assertEquals(await look(), []);
  await kernel.script(`delete element inet signpost source-ranges-udp4 {
    192.0.2.10 . 17 . 198.51.100.0/24
  }
  flush chain inet signpost source-ranges6-sctp`);
  const rules = [
    "drop",
    "ip6 daddr . meta l4proto . th dport vmap @firewall-drops6",
    "ip6 daddr . th dport . ip6 saddr @source-ranges-sctp6 return",
  ];
  const found = (await look()).map(({ desired, held, ...each }) => [each, desired + held]);
  const missing = (
    place: string,
    key: string,
    service = "",
  ) => [{ type: "missing", in: place, key, service }, ""];
  assertEquals(found, [
    ...rules.map((key) => missing("chain source-ranges6-sctp", key)),
    missing("source-ranges-udp4", "192.0.2.10 . 17 . 198.51.100.0/24", "shop/web:seventeen"),
  ]);
});

Deno.test("an element of a frontend that should not be there names the frontend's Service", async () => {
  await using kernel = await Kernel.create();
  const look = await applied(kernel);
  await kernel.script(`
add element inet signpost source-ranges-udp4 { 192.0.2.10 . 17 . 203.0.114.0/24 }
add element inet signpost services4 { 10.96.0.10 . udp . 17 : goto reject-traffic }
add element inet signpost services4 { 10.96.0.10 . udp . 18 : goto reject-traffic }`);
  assertEquals((await look()).map(({ in: set, key, service }) => [set, key, service]), [
    ["services4", "10.96.0.10 . udp . 17", "shop/web:seventeen"],
    ["services4", "10.96.0.10 . udp . 18", ""],
    ["source-ranges-udp4", "192.0.2.10 . 17 . 203.0.114.0/24", "shop/web:seventeen"],
  ]);
});
