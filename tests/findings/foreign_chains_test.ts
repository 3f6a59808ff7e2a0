import { assertEquals } from "@std/assert";
import { foreignChains } from "../../lib/backend/nftables/read.ts";
import { checkFirewalls, checkNatOrder } from "../../lib/findings/foreign_chains.ts";
import type { Finding } from "../../lib/model/status.ts";
import { service, slice } from "../policy/objects.ts";
import { type ApiObject, NODE_NAME } from "../support/pipeline.ts";
import { factsOf, listOf } from "./facts.ts";

const NODE: ApiObject = {
  kind: "Node",
  metadata: { name: NODE_NAME },
  status: { addresses: [{ type: "InternalIP", address: "192.168.77.2" }] },
};
const OBJECTS = [
  NODE,
  service("web", {
    type: "LoadBalancer",
    externalTrafficPolicy: "Local",
    healthCheckNodePort: 32111,
    ports: [{ port: 80, nodePort: 30080 }],
  }),
  slice("web", [`10.244.0.11@${NODE_NAME}`]),
];

function factsWith(listing: string, objects: readonly ApiObject[] = OBJECTS) {
  return factsOf(objects, {
    configuration: { clusterCIDRs: ["10.244.0.0/16"] },
    facts: {
      ruleset: { chains: foreignChains(listing) },
    },
  });
}

/** A table `ip filter` whose chain has these rules, as nft prints them. */
function chain(hook: "forward" | "input", rules: readonly string[], { policy = "drop" } = {}) {
  const lines = [`type filter hook ${hook} priority 0; policy ${policy};`, ...rules];
  return `table ip filter {\n\tchain ${hook.toUpperCase()} {\n${
    lines.map((line) => `\t\t${line}\n`).join("")
  }\t}\n\n\tchain other {\n\t\tip daddr 10.244.0.0/16 accept\n\t}\n}\n`;
}

function found(listing: string, objects?: readonly ApiObject[]): Finding[] {
  return listOf(checkFirewalls(factsWith(listing, objects)));
}

const COUNT = "counter packets 4 bytes 240";
const ESTABLISHED = `ct state related,established ${COUNT} accept`;

/** Rules of a forward chain with the policy drop that leave the packet to it. */
const DROPPING: readonly (readonly string[])[] = [
  [],
  [ESTABLISHED],
  ["ct state vmap { invalid : drop, established : accept, related : accept }"],
  [ESTABLISHED, `iifname "lo" ${COUNT} accept`, `ip saddr 10.244.0.0/16 ${COUNT} accept`],
  [`tcp dport 22 ${COUNT} accept`, "meta l4proto tcp tcp dport { 443, 1000-2000 } accept"],
  [
    "meta l4proto icmp icmp type echo-request accept",
    "udp dport 53 accept",
    "ip6 daddr ::/0 accept",
  ],
  ["ip daddr 192.168.0.0/16 accept", "ip daddr != 10.244.0.0/16 accept"],
  [`limit rate 3/minute ${COUNT} log prefix "[UFW BLOCK] "`],
  ["fib daddr type local accept", "return", "accept"],
  [`${COUNT} reject with icmp type host-prohibited`, "accept"],
  ["ip daddr 10.244.0.0/16 goto nothing", "accept"],
  ["jump nothing"],
];

for (const rules of DROPPING) {
  Deno.test(`a firewall drops what Services send: ${rules.join("; ") || "no rule"}`, () => {
    assertEquals(found(chain("forward", rules)).map(({ id }) => id), ["firewall-drops-services"]);
  });
}

/** Rules that accept the packet, or may do so. */
const ACCEPTING: readonly (readonly string[])[] = [
  ["accept"],
  [ESTABLISHED, `ct status dnat ${COUNT} accept`],
  ["ct state new,established accept"],
  ["ip daddr 10.244.0.0/16 accept"],
  ["tcp dport 8080 accept"],
  ["meta mark & 0x00004000 == 0x00004000 accept"],
  ['iifname "eth0" accept'],
  ['oifname "cni0" jump other'],
  ["jump other"],
  ["goto other"],
  ["ip saddr @trusted accept"],
  ["tcp dport vmap { 22 : accept }"],
  ['xt match "conntrack" counter packets 0 bytes 0 accept'],
  ["ct state vmap { established : accept, new : jump other }"],
];

for (const rules of ACCEPTING) {
  Deno.test(`a firewall may let Services pass: ${rules.join("; ")}`, () => {
    assertEquals(found(chain("forward", rules)), []);
  });
}

Deno.test("a chain with the policy accept drops by its last rule", () => {
  const accepting = { policy: "accept" };
  assertEquals(found(chain("forward", [ESTABLISHED], accepting)), []);
  assertEquals(found(chain("forward", [ESTABLISHED, "drop"], accepting)).length, 1);
});

Deno.test("the finding names chain, Service and the line to type", () => {
  const [first] = found(chain("forward", [ESTABLISHED]));
  assertEquals([first?.what, first?.where, first?.remedy], [
    "chain FORWARD of table ip filter drops connections from outside that Services send to " +
    "endpoints, such as default/web to 10.244.0.11 tcp port 8080",
    "chain ip filter FORWARD",
    "Accept them: iptables -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT",
  ]);
  const [other] = found(
    chain("forward", []).replace("ip filter", "inet host").replace("FOR", "for"),
  );
  assertEquals(
    other?.remedy,
    "Accept them: nft insert rule inet host forWARD ct status dnat accept",
  );
});

Deno.test("a firewall that drops health checks is named with their port", () => {
  const [first, ...rest] = found(chain("input", [ESTABLISHED, "tcp dport { 22, 10250 } accept"]));
  assertEquals([first?.id, first?.remedy, first?.services, rest.length], [
    "firewall-drops-health-checks",
    "Accept them: iptables -I INPUT -p tcp --dport 32111 -j ACCEPT",
    ["default/web"],
    0,
  ]);
  assertEquals(found(chain("input", ["tcp dport 30000-32767 accept"])), []);
});

Deno.test("a firewall is no finding where no Service needs it, and our own chains are none", () => {
  assertEquals(
    found(chain("forward", []), [NODE, service("web"), slice("web", ["10.244.0.11"])]),
    [],
  );
  assertEquals(found(chain("input", []), [NODE, service("web")]), []);
  assertEquals(found(chain("forward", []).replace("ip filter", "inet signpost")), []);
});

for (const table of ["ip6 filter", "bridge filter"]) {
  Deno.test(`a chain that sees no IPv4 packet is no finding where all Services are IPv4: ${table}`, () => {
    assertEquals(found(chain("forward", []).replace("ip filter", table)), []);
  });
}

Deno.test("an endless row of jumps is followed for a while only", () => {
  const loop = chain("forward", Array.from({ length: 200 }, () => "jump other"))
    .replace("ip daddr 10.244.0.0/16 accept", Array(200).fill("jump other").join("\n\t\t"));
  assertEquals(found(loop), []);
});

Deno.test("a nat chain that comes before ours is named, one that comes after it is not", () => {
  const nat = (priority: string, hook = "prerouting") =>
    `table ip vpn {\n\tchain pre {\n\t\ttype nat hook ${hook} priority ${priority}; policy accept;\n\t}\n}\n`;
  const said = (listing: string) =>
    listOf(checkNatOrder(factsWith(listing))).map(({ where }) => where);
  assertEquals(said(nat("-101")), ["chain ip vpn pre"]);
  assertEquals(said(nat("-150", "output")), ["chain ip vpn pre"]);
  assertEquals(said(nat("-100")), []);
  assertEquals(said(nat("100", "postrouting")), []);
});
