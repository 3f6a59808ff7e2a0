import { assertEquals, assertMatch } from "@std/assert";
import { foreignChains } from "../../lib/backend/nftables/read.ts";
import { checkPublishedPorts } from "../../lib/findings/published_ports.ts";
import type { Finding } from "../../lib/model/status.ts";
import { node, service } from "../policy/objects.ts";
import { casesOf } from "../support/table.ts";
import { factsOf, listOf } from "./facts.ts";

const NODE = node(["192.168.77.2"]);
const WEB = service("web", { type: "NodePort", ports: [{ port: 80, nodePort: 30080 }] });

/** DNAT rules as Docker, Podman, portmap and administrators have them, as nft prints them, and what is said of each. */
const PUBLISHED = casesOf(`
ip nat => DOCKER => iifname != "docker0" tcp dport 30080 counter packets 4 bytes 240 dnat to 172.17.0.2:80 => ip nat (Docker) sends tcp port 30080 to 172.17.0.2:80
ip nat => NETAVARK-DN-1D8721804F16F => meta l4proto tcp tcp dport 30080 counter packets 4 bytes 240 xt target "DNAT" => ip nat (Podman) sends tcp port 30080
inet netavark => nv_2f259bab_10_88_0_0_nm16_dnat => tcp dport 30080 dnat ip to 10.88.0.2:80 => inet netavark (Podman) sends tcp port 30080 to 10.88.0.2:80
inet cni_hostport => hostports => meta l4proto tcp th dport 30080 dnat ip to 10.244.0.9:80 comment "id" => inet cni_hostport (the plugin portmap) sends tcp port 30080 to 10.244.0.9:80
ip own => pre => ip daddr 192.168.77.2 tcp dport { 22, 30000-30100 } dnat to 10.0.0.2 => ip own sends tcp port 30080 to 10.0.0.2
ip own => pre => ip daddr 192.168.77.2 ip protocol tcp dnat to 10.0.0.4 => ip own sends tcp port 30080 to 10.0.0.4
ip own => pre => dnat to tcp dport map { 22 : 10.0.0.2, 30080 : 10.0.0.3 } => ip own sends tcp port 30080 to 10.0.0.3
`);

/** Rules that leave the node port 30080/tcp alone. */
const UNRELATED = casesOf(`
ip nat => DOCKER => tcp dport 8088 dnat to 172.17.0.2:80
ip nat => DOCKER => udp dport 30080 dnat to 172.17.0.2:80
ip nat => DOCKER => ip daddr 127.0.0.1 tcp dport 30080 dnat to 172.17.0.2:80
ip6 nat => DOCKER => tcp dport 30080 dnat to [fd00::2]:80
ip nat => DOCKER => iifname "eth0" ip saddr 198.51.100.7 tcp dport 30080 dnat to 172.17.0.2:80
ip nat => KUBE-SEP-A => tcp dport 30080 dnat to 10.244.0.11:8080
ip filter => FORWARD => ip daddr 172.17.0.2 tcp dport 30080 accept
`);

function publishedOf(table: string, name: string, rule: string, web = WEB): Finding[] {
  const listing = `table ${table} {
\tchain base {
\t\ttype nat hook prerouting priority -100; policy accept;
\t\tfib daddr type local counter packets 0 bytes 0 jump ${name}
\t}
\tchain ${name} {
\t\t${rule}
\t}
}
`;
  return listOf(checkPublishedPorts(factsOf([NODE, web], {
    facts: { ruleset: { chains: foreignChains(listing), routes: [] } },
  })));
}

for (const [table, name, rule, who] of PUBLISHED) {
  Deno.test(`a published port that is a node port is found: ${who}`, () => {
    const [first, ...others] = publishedOf(table, name, rule);
    assertEquals([first?.what, first?.services, others], [
      `chain ${name} of table ${who}, and it is the node port of default/web: only one of them ` +
      "gets the connections (in nftables mode the Service)",
      ["default/web"],
      [],
    ]);
    assertMatch(first?.remedy ?? "", /kubectl edit service -n default web$/);
  });
}

Deno.test("rules about other ports or addresses do not concern a node port", () => {
  for (const [table, name, rule] of UNRELATED) {
    assertEquals(publishedOf(table, name, rule), [], rule);
  }
});

Deno.test("a published port that is a port of a Service's address on this node is found", () => {
  const spec = { type: "LoadBalancer", ports: [{ port: 80 }], externalIPs: ["192.168.77.2"] };
  const rule = 'iifname != "docker0" tcp dport 80 dnat to 172.17.0.2:80';
  const [first, ...others] = publishedOf("ip nat", "DOCKER", rule, service("web", spec));
  assertEquals(others, []);
  assertMatch(
    first?.what ?? "",
    /sends tcp port 80 to 172.17.0.2:80, and it is a port of 192.168.77.2, an address of default\/web:/,
  );
});
