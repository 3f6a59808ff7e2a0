import { assertArrayIncludes, assertEquals, assertMatch } from "@std/assert";
import { foreignChains } from "../../lib/backend/nftables/read.ts";
import { checkFirewalls, checkNatOrder } from "../../lib/findings/foreign_chains.ts";
import type { Finding } from "../../lib/model/status.ts";
import { node, service, slice } from "../policy/objects.ts";
import { type ApiObject, NODE_NAME } from "../support/pipeline.ts";
import { factsOf, listOf } from "./facts.ts";

const TESTDATA = new URL("../testdata/firewalls", import.meta.url).pathname;

const NODE = node(["192.168.77.2"]);
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

/** The node: pods behind the bridge cni0, all else by eth0. */
const ROUTES = [
  { cidr: "0.0.0.0/0", device: "eth0" },
  { cidr: "192.168.77.0/24", device: "eth0" },
  { cidr: "10.244.0.0/24", device: "cni0" },
  { cidr: "10.244.1.0/24", device: "eth0" },
  { cidr: "172.17.0.0/16", device: "docker0" },
];

function factsWith(listing: string, objects: readonly ApiObject[] = OBJECTS) {
  return factsOf(objects, {
    configuration: { clusterCIDRs: ["10.244.0.0/16"] },
    facts: { ruleset: { chains: foreignChains(listing), routes: ROUTES } },
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
  ["tcp dport vmap { 22 : accept, 443 : accept }"],
  ['iifname vmap { "lo" : accept, "docker0" : accept }'],
  // As Docker, libvirt and routers have them.
  ['iifname "docker0" oifname != "docker0" accept', 'iifname "docker0" oifname "docker0" accept'],
  ['iifname "virbr*" accept', 'oifname { "virbr0", "lxdbr0" } accept', 'iifname != "eth*" accept'],
  ["ct status snat accept", "ct direction reply accept"],
  ["meta pkttype { broadcast, multicast } accept", "fib daddr type != unicast accept"],
  ["meta mark & 0x00010000 == 0x00010000 accept", "meta mark != 0x00000000 accept"],
  ["meta mark set meta mark & 0xffff0000 ^ 0x00000001", "meta mark & 0x0000ffff != 0x1 accept"],
  ["tcp sport 1-1023 accept", "limit rate over 10/second accept"],
  ["ip daddr 10.244.0.11 tcp dport 9090 accept"],
  ["ct state established,related accept", "ct status != dnat accept"],
  // Docker 28.0 matches its bridges by a set.
  [`xt match "set" ct state related,established ${COUNT} accept`],
];

for (const rules of DROPPING) {
  Deno.test(`a firewall drops what Services send: ${rules.join("; ") || "no rule"}`, () => {
    const [first, ...others] = found(chain("forward", rules));
    assertEquals([first?.id, others], ["firewall-drops-services", []]);
    assertArrayIncludes(first?.drops ?? [], ["external forward"]);
  });
}

/** Rules with an anonymous chain, and the finding about a chain with the policy accept. */
const ANONYMOUS: readonly (readonly [readonly string[], string | undefined])[] = [
  [['iifname "wan0" jump {', "\ttcp dport 22 accept", "\tdrop", "}"], undefined],
  [["tcp dport 8080 jump {", "\taccept", '} comment "web"', "drop"], undefined],
  [["jump {", "\ttcp dport 8080 goto {", "\t\tdrop", "\t}", "}"], "firewall-drops-services"],
  [["tcp dport 25 goto {", "\taccept", "}", "drop"], "firewall-drops-services"],
];

for (const [rules, id] of ANONYMOUS) {
  Deno.test(`the rules of an anonymous chain hold for its packets: ${rules.join("; ")}`, () => {
    assertEquals(found(chain("forward", rules, { policy: "accept" }))[0]?.id, id);
  });
}

Deno.test("a dormant table drops nothing", () => {
  const listing = chain("forward", []);
  assertEquals(found(listing).length, 1);
  assertEquals(found(listing.replace("{\n", "{\n\tflags dormant\n\n")), []);
});

/** Rules that accept packets from outside and from pods. */
const ACCEPTING: readonly (readonly string[])[] = [
  ["accept"],
  [ESTABLISHED, `ct status dnat ${COUNT} accept`],
  ["ct state new,established accept"],
  ["ip daddr 10.244.0.0/16 accept"],
  ["tcp dport 8080 accept"],
  ['iifname { "eth0", "cni0" } accept'],
  ['iifname "eth0" accept', "ip saddr 10.244.0.0/16 accept"],
  ['oifname "cni0" jump other'],
  ["jump other"],
  ["goto other"],
  ["tcp dport vmap { 22 : drop, 8080 : accept }"],
  ['iifname vmap { "cni0" : jump other, "eth0" : accept }'],
  ["limit rate 10/second burst 5 packets accept"],
  ["meta mark set meta mark | 0x00000100", "meta mark & 0x00000100 == 0x00000100 accept"],
  ["ct state vmap @states"],
  ["iifname . oifname vmap @ways"],
  ["ct state vmap { established : accept, new : jump other }"],
];

for (const rules of ACCEPTING) {
  Deno.test(`a firewall may let Services pass: ${rules.join("; ")}`, () => {
    assertEquals(found(chain("forward", rules)), []);
  });
}

/** Rules of a forward chain with the policy drop that may accept the packet. */
const UNKNOWN: readonly (readonly string[])[] = [
  ["ip saddr @trusted accept"],
  ["ip saddr 203.0.113.0/24 accept", "ip saddr 10.244.0.0/16 accept"],
  ['xt match "conntrack" counter packets 0 bytes 0 accept'],
  ["ip saddr @trusted jump other"],
  ["meta mark set ct mark", "meta mark 0x1 accept"],
  ["iifname @inside accept"],
  ["iifname . oifname @allowed accept"],
  ['iifname . oifname vmap { "eth0" . "cni0" : accept }'],
  ["meta l4proto . th dport vmap { tcp . 22 : accept, tcp . 8080 : accept }"],
  ["ip protocol @protocols accept"],
];

for (const rules of UNKNOWN) {
  Deno.test(`a firewall that drops by default may drop Services: ${rules.join("; ")}`, () => {
    const [first, ...others] = found(chain("forward", rules));
    assertEquals([first?.id, others], ["firewall-may-drop", []]);
    assertMatch(first?.what ?? "", /^chain FORWARD of table ip filter may drop connections from /);
  });
}

for (
  const rules of [
    ["ip saddr @blocked drop"],
    ["ip saddr { 203.0.113.7, 203.0.113.9 } reject"],
    ['iifname "docker0" oifname != "docker0" jump isolated'],
    ["ip daddr 10.244.0.11 drop"],
    ["fib saddr . mark . iif oif missing drop"],
    ["tcp flags & (fin | syn | rst | ack) != syn ct state new drop"],
    ["ct state invalid drop", "ct status dnat accept", "drop"],
  ]
) {
  Deno.test(`a rule about some senders is not a finding: ${rules.join("; ")}`, () => {
    assertEquals(found(chain("forward", rules, { policy: "accept" })), []);
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
    "chain FORWARD of table ip filter drops connections from outside and pods that Services send to " +
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

Deno.test("a firewall is not a finding where no Service needs it", () => {
  const internal = [NODE, service("web"), slice("web", ["10.244.0.11"])];
  assertEquals(found(chain("forward", []), internal).map(({ drops }) => drops), [["pod forward"]]);
  assertEquals(found(chain("forward", []), [NODE, service("web"), slice("web", [])]), []);
  assertEquals(found(chain("input", []), [NODE, service("web")]), []);
  assertEquals(found(chain("forward", []).replace("ip filter", "inet signpost")), []);
});

for (const table of ["ip6 filter", "bridge filter"]) {
  Deno.test(`a chain without IPv4 packets is not a finding for IPv4 Services: ${table}`, () => {
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

Deno.test("Docker's FORWARD is named with its chain for rules of users", async () => {
  const [first, ...others] = found(await Deno.readTextFile(`${TESTDATA}/docker-forward-drop.nft`));
  assertEquals([first?.id, first?.remedy, others], [
    "firewall-drops-services",
    "Accept them: iptables -I DOCKER-USER -m conntrack --ctstate DNAT -j ACCEPT",
    [],
  ]);
  assertMatch(first?.what ?? "", /^chain FORWARD of table ip filter \(Docker\) drops/);
});

Deno.test("firewalld drops health checks", async () => {
  const listing = await Deno.readTextFile(`${TESTDATA}/firewalld-1.3.3.nft`);
  const owned = listing.replace("{\n", "{ # progname firewalld\n\tflags owner,persist\n\n");
  for (const text of [listing, owned]) {
    const [first, ...others] = found(text);
    assertEquals([first?.id, first?.where, first?.remedy, others], [
      "firewall-drops-health-checks",
      "chain inet firewalld filter_INPUT",
      "Accept them: firewall-cmd --permanent --add-port=32111/tcp && firewall-cmd --reload",
      [],
    ]);
  }
  assertEquals(found(listing.replace("tcp dport 22 accept", "tcp dport 32111 accept")), []);
});

/** A table whose chain has these rules and the policy drop. */
function hooked(hook: string, rules: readonly string[], table = "inet host") {
  const lines = [`type filter hook ${hook}; policy drop;`, ...rules];
  return `table ${table} {\n\tchain all {\n${
    lines.map((line) => `\t\t${line}\n`).join("")
  }\t}\n}\n`;
}

const HOOKS: readonly (readonly [hook: string, drops: readonly string[], line: string])[] = [
  [
    "prerouting priority -140",
    ["external forward", "pod forward"],
    "nft 'insert rule inet host all tcp dport { 30080, 80 } accept'",
  ],
  [
    "prerouting priority 10",
    ["external forward", "pod forward"],
    "nft insert rule inet host all ct status dnat accept",
  ],
  [
    "postrouting priority 0",
    ["external forward", "pod forward", "node forward"],
    "nft insert rule inet host all ct status dnat accept",
  ],
  ["output priority -150", ["node forward"], "nft insert rule inet host all tcp dport 80 accept"],
  ["output priority 0", ["node forward"], "nft insert rule inet host all ct status dnat accept"],
];

for (const [hook, drops, line] of HOOKS) {
  Deno.test(`a firewall that drops at ${hook} is found`, () => {
    const [first] = found(hooked(hook, ["ct state established,related accept"]))
      .filter(({ id }) => id === "firewall-drops-services");
    assertEquals([first?.drops, first?.remedy], [drops, `Accept them: ${line}`]);
    const accepting = hooked(hook, ["ct state established,related accept", "ct state new accept"]);
    assertEquals(found(accepting), []);
  });
}

Deno.test("a firewall on an interface is found by its own packets alone", () => {
  const drops = (device: string) =>
    found(hooked(`ingress device "${device}" priority -500`, ["tcp dport 22 accept"], "netdev x"))
      .flatMap((each) => each.drops ?? []);
  assertEquals(drops("eth0"), ["external forward"]);
  assertEquals(drops("cni0"), ["pod forward"]);
  assertEquals(drops("docker0"), []);
});

Deno.test("a firewall before endpoints on this node is found, with the port", () => {
  const objects = [
    NODE,
    service("host", { type: "NodePort", ports: [{ port: 80, targetPort: 6444, nodePort: 30090 }] }),
    slice("host", [`192.168.77.2@${NODE_NAME}`], { ports: [{ name: "", port: 6444 }] }),
  ];
  const [first, ...others] = found(chain("input", [ESTABLISHED, 'iifname "lo" accept']), objects);
  assertEquals([first?.id, first?.drops, first?.remedy, others], [
    "firewall-drops-services",
    ["external input", "pod input"],
    "Accept them: iptables -I INPUT -m conntrack --ctstate DNAT -j ACCEPT",
    [],
  ]);
  assertEquals(found(chain("input", ["ct status dnat accept"]), objects), []);
  assertEquals(found(chain("input", ["tcp dport 6444 accept"]), objects), []);
  assertEquals(found(chain("forward", []), objects), []);
  const ufw = `${chain("input", [ESTABLISHED, "jump ufw-before-input"]).slice(0, -2)}` +
    "\tchain ufw-before-input {\n\t}\n}\n";
  const [named] = found(ufw, objects);
  assertEquals(named?.remedy, "Accept them: ufw allow 6444/tcp");
});

Deno.test("iptables mode's own chain accepts packets to be masqueraded", () => {
  const hairpin = "ip saddr 10.244.0.11 ip daddr 10.244.0.11 accept";
  const rules = ["meta mark & 0x00004000 == 0x00004000 accept", hairpin, ESTABLISHED];
  const [first] = found(chain("forward", rules));
  assertEquals(first?.drops, ["external forward", "pod forward"]);
  const cluster = [NODE, service("web", { type: "NodePort" }), slice("web", ["10.244.0.11"])];
  const [pods] = found(chain("forward", rules), cluster);
  assertEquals(pods?.drops, ["pod forward"]);
});

Deno.test("Calico's chains accept by marks that they set before", () => {
  const listing = `table ip filter {
	chain FORWARD {
		type filter hook forward priority 0; policy accept;
		jump cali-FORWARD
		meta mark & 0x00010000 == 0x00010000 accept
		drop
	}

	chain cali-FORWARD {
		meta mark set meta mark & 0xfff1ffff
		iifname "cali*" jump cali-from-wl-dispatch
		oifname "cali*" jump cali-to-wl-dispatch
		meta mark set meta mark | 0x00010000
	}

	chain cali-from-wl-dispatch {
		iifname "cali1" goto cali-fw-cali1
		iifname "cali2" goto cali-fw-cali1
		drop
	}

	chain cali-to-wl-dispatch {
		oifname "cali1" goto cali-fw-cali1
		drop
	}

	chain cali-fw-cali1 {
		ct state established,related accept
		meta mark set meta mark & 0xfffeffff
		meta mark set meta mark | 0x00010000
		meta mark & 0x00010000 == 0x00010000 return
		drop
	}
}
`;
  const routes = ["cali1", "cali2"].map((device, index) => ({
    cidr: `10.244.0.1${index + 1}/32`,
    device,
  }));
  const facts = factsWith(listing);
  const chains = facts.ruleset?.chains ?? [];
  const ruleset = { chains, routes: [{ cidr: "0.0.0.0/0", device: "eth0" }, ...routes] };
  assertEquals(listOf(checkFirewalls({ ...facts, ruleset })), []);
});
