import { assertEquals } from "@std/assert";
import { foreignChains } from "../../lib/backend/nftables/read.ts";
import { checkRefusals } from "../../lib/findings/refusals.ts";
import type { Mode } from "../../lib/model/configuration.ts";
import type { Finding } from "../../lib/model/status.ts";
import { node, service, slice } from "../policy/objects.ts";
import { NODE_NAME } from "../support/pipeline.ts";
import { factsOf, listOf } from "./facts.ts";

/** The rules of kube-router with a policy for two pods, beside iptables mode. */
const KUBE_ROUTER = await Deno.readTextFile(
  new URL("../testdata/firewalls/kube-router-2.1.0.nft", import.meta.url),
);
const WEB = slice("web", [`10.244.0.11@${NODE_NAME}`]);
const OBJECTS = [node(["192.168.77.2"]), service("web"), WEB, service("none")];
const ROUTES = [
  { cidr: "0.0.0.0/0", device: "eth0" },
  { cidr: "10.244.0.11/32", device: "veth1" },
];

function found(listing: string, objects = OBJECTS, mode: Mode = "iptables"): Finding[] {
  const ruleset = { chains: foreignChains(listing), routes: ROUTES };
  return listOf(checkRefusals(factsOf(objects, { mode, facts: { ruleset } })));
}

/** A FORWARD with a rule before ours. */
function before(rule: string): string {
  return `table ip filter {
\tchain FORWARD {
\t\ttype filter hook forward priority 0; policy accept;
\t\t${rule}
\t\tct state new counter packets 0 bytes 0 jump KUBE-PROXY-FIREWALL
\t}
}
`;
}

Deno.test("a chain that accepts packets before our rules reject them is found", () => {
  assertEquals(found(KUBE_ROUTER), [{
    id: "reject-comes-late",
    severity: "warning",
    what: "chain FORWARD of table ip filter accepts packets from the pod 10.244.0.11 before " +
      "signpost's rules reject them: connections to Services without endpoints, such as " +
      "default/none, are not refused",
    where: "chain ip filter FORWARD",
    remedy: "Use nftables mode (--proxy-mode=nftables).",
    services: ["default/none"],
  }]);
});

Deno.test("a rule about the pod's interface is found", () => {
  assertEquals(found(before('iifname "veth1" accept')).length, 1);
});

for (
  const rule of [
    "counter packets 0 bytes 0",
    "ct state related,established accept",
    'iifname "docker0" oifname != "docker0" accept',
    'iifname "veth2" accept',
    "ip saddr 10.244.0.12 accept",
    "ip daddr 192.168.122.0/24 accept",
    "xt match set accept",
    "drop",
  ]
) {
  Deno.test(`a rule that leaves the packet to our rules is not found: ${rule}`, () => {
    assertEquals(found(before(rule)), []);
  });
}

Deno.test("nothing is found in nftables mode, beside kube-proxy's rules", () => {
  assertEquals(found(KUBE_ROUTER, OBJECTS, "nftables"), []);
});

Deno.test("nothing is found without our rules, or if each Service has endpoints", () => {
  assertEquals(found(before("accept").replace("KUBE-PROXY-FIREWALL", "other")), []);
  assertEquals(found(KUBE_ROUTER, OBJECTS.slice(0, 3)), []);
});
