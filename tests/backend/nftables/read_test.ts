import { assertEquals, assertNotEquals } from "@std/assert";
import {
  canonicalDeclaration,
  parseHook,
  parsingListing,
} from "../../../lib/backend/nftables/read.ts";
import { tableSet } from "../../../lib/backend/nftables/sets.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { fingerprint } from "../../../lib/backend/nftables/compare.ts";
import { casesOf } from "../../support/table.ts";

/** As nft 1.1.3 prints it: protocols as numbers, one element a line, types in the place of names. */
const LISTING_1_1 = `table inet signpost { # handle 7
	comment "by signpost"
	map services4 {
		type ipv4_addr . inet_proto . inet_service : verdict
		elements = { 10.96.0.10 . 6 . 80 comment "shop/web:http" : goto cluster4-tcp-2,
			     10.96.0.11 . 17 . 53 : goto cluster4-udp-1 }
	}

	map nodeports4 {
		type inet_proto . inet_service : verdict
		elements = { 6 . 30080 : goto nodeport4-tcp-2 }
	}

	map endpoints-tcp4 {
		typeof ip daddr . tcp dport . numgen random mod 2 : ip daddr . tcp dport
		elements = { 10.96.0.10 . 6 . 0 : 10.244.0.1 . 8080 }
	}

	set service-cidrs6 {
		type ipv6_addr
		flags interval
		elements = { fd00:10:96::/112, fd00::1/128 }
	}

	set affinity4-x {
		type ipv4_addr
		size 65535
		timeout 3h
		flags dynamic,timeout
		elements = { 203.0.113.7 timeout 3h expires 2h59m51s }
	}

	chain nat-prerouting {
		type nat hook prerouting priority -100; policy accept;
		jump services
	}

	chain empty {
	}
}
`;

Deno.test("a listing of nft 1.1 is read as one of nft 1.0", () => {
  const contents = atOnce(parsingListing(LISTING_1_1));
  const sets = new Map(
    [...contents?.sets ?? []].map((
      [name, elements],
    ) => [name, [...elements].map(([key, { data }]) => [key, data])]),
  );
  assertEquals(Object.fromEntries(sets), {
    services4: [
      ["10.96.0.10 . tcp . 80", "goto cluster4-tcp-2"],
      ["10.96.0.11 . udp . 53", "goto cluster4-udp-1"],
    ],
    nodeports4: [["tcp . 30080", "goto nodeport4-tcp-2"]],
    // Port 6 is a port here.
    "endpoints-tcp4": [["10.96.0.10 . 6 . 0", "10.244.0.1 . 8080"]],
    "service-cidrs6": [["fd00:10:96::/112", ""], ["fd00::1", ""]],
    "affinity4-x": [["203.0.113.7", ""]],
  });
  assertEquals(Object.fromEntries(contents?.chains ?? []), {
    "nat-prerouting": ["type nat hook prerouting priority -100 policy accept", "jump services"],
    empty: [],
  });
});

Deno.test("text without a table has no contents", () => {
  assertEquals(atOnce(parsingListing("")), undefined);
});

/** Rules as signpost writes them, and as nft prints them. */
const SPELLINGS = casesOf(`
meta mark set meta mark | 0x4000 => meta mark set meta mark | 0x00004000
reject => reject with icmpx port-unreachable
counter reject => counter packets 3 bytes 180 reject with icmpx port-unreachable
ip6 daddr @cluster-ips6 reject => ip6 daddr @cluster-ips6 reject with icmpv6 port-unreachable
reject => reject with icmpx type port-unreachable
meta mark & 0x80000000 == 0x80000000 masquerade fully-random => meta mark 0x80000000/1 masquerade fully-random
ip daddr @cluster-ips4 reject => ip daddr @cluster-ips4 reject with icmp port-unreachable
update @affinity4-x { ip saddr timeout 10800s } => update @affinity4-x { ip saddr timeout 3h }
meta l4proto udp dnat ip to 10.244.0.1:80 => meta l4proto 17 dnat ip to 10.244.0.1:80
ip daddr { 10.0.0.1/32 } accept => ip daddr 10.0.0.1 accept
ip daddr { 10.0.2.0/24, 10.0.0.0/24, 10.0.1.0/24 } accept => ip daddr { 10.0.0.0-10.0.2.255 } accept
ip6 daddr { fd00::/65, fd00::8000:0:0:0/65 } => ip6 daddr { fd00::/64 }
`);

for (const [written, printed] of SPELLINGS) {
  Deno.test(`nft's spelling of a rule means the same: ${printed}`, () => {
    assertEquals(fingerprint(printed), fingerprint(written));
  });
}

Deno.test("rules that do different things have different fingerprints", () => {
  const rules = [
    "jump services",
    "goto services",
    "ip daddr @cluster-ips4 reject",
    "ip daddr @cluster-ips4 drop",
    "ip saddr 10.0.0.0/8 jump a",
    "ip saddr != 10.0.0.0/8 jump a",
    "ip saddr 10.0.0.0/9 jump a",
    "ip daddr 10.0.0.0/9 jump a",
    'iifname "cni0" jump a',
    'iifname "cni*" jump a',
    "dnat ip to 10.0.0.1:80",
    "dnat ip to 10.0.0.1:81",
    "dnat ip6 to [fd00::1]:81",
    "meta mark set meta mark | 0x4000",
    "meta mark set meta mark | 0x8000",
    "update @s { ip saddr timeout 60s }",
    "update @s { ip saddr timeout 61s }",
    "dnat ip to numgen random mod 2 map @m",
    "dnat ip to numgen random mod 1 map @m",
    "reject with icmp port-unreachable",
    "reject with icmp admin-prohibited",
    "reject with tcp reset",
    "reject",
    "tcp sport 22 jump services",
    "limit rate 1/second jump services",
    "meta skuid 0 jump services",
    "counter packets 0 bytes 0 jump services",
    'jump services comment "by hand"',
    "meta mark & 0x4000 == 0x4000 jump a",
    "meta mark & 0xc000 == 0x4000 jump a",
    "meta mark 0x4000 jump a",
    "update @s { ip saddr timeout 60s500ms }",
    "add @s { ip saddr timeout 60s }",
    "update @s { ip saddr timeout 60s limit rate 1/second }",
    "ip daddr { 10.0.0.1, 10.0.0.9 } jump a",
    "ip daddr != { 10.0.0.1, 10.0.0.9 } jump a",
    "numgen random mod 2 0 goto a",
    "numgen random mod 3 0 goto a",
    "numgen inc mod 2 0 goto a",
    "numgen random mod 2 0 goto b",
  ];
  assertEquals(new Set(rules.map(fingerprint)).size, rules.length);
});

Deno.test("declarations that versions of nft spell in different ways are the same", () => {
  for (
    const [kind, written, printed] of [
      ["set", "typeof meta mark; flags timeout; gc-interval 10s", [
        "type mark",
        "gc-interval 10s",
        "flags timeout",
      ]],
      ["set", "typeof ip saddr; flags dynamic,timeout", [
        "type ipv4_addr",
        "size 65535",
        "flags timeout,dynamic",
      ]],
      ["map", "typeof ip daddr . tcp dport . numgen random mod 2 : ip daddr . tcp dport", [
        "type ipv4_addr . inet_service . integer : ipv4_addr . inet_service",
      ]],
    ] as const
  ) {
    assertEquals(
      canonicalDeclaration(kind, printed),
      canonicalDeclaration(kind, written.split("; ")),
    );
  }
});

Deno.test("a hook is read as a rule", () => {
  assertEquals(
    parseHook("type nat hook output priority -100; policy accept;"),
    "type nat hook output priority -100 policy accept",
  );
  assertEquals(parseHook("jump services"), undefined);
});

Deno.test("other objects of a table are read", () => {
  const contents = atOnce(parsingListing(`table inet signpost {
	comment "by hand"
	flags dormant, owner
	counter hits {
		packets 0 bytes 0
	}
	set cluster-ips4 {
		typeof ip daddr
		size 65535	# count 3
		counter
		elements = { 10.96.0.1 counter packets 0 bytes 0 comment "a, b : c", 10.96.0.2,
			     10.96.0.3 timeout 1h expires 59m }
	}
}
`));
  assertEquals(contents?.flags, "dormant, owner");
  assertEquals(contents?.others, ['comment "by hand"', "counter hits"]);
  assertEquals(
    contents?.declarations.get("cluster-ips4"),
    "set; counter; size 65535; type ipv4_addr",
  );
  assertEquals([...contents?.sets.get("cluster-ips4")?.keys() ?? []], [
    "10.96.0.1",
    "10.96.0.2",
    "10.96.0.3",
  ]);
  const remarks = [...contents?.sets.get("cluster-ips4")?.values() ?? []].map(({ remark }) =>
    remark
  );
  assertEquals(remarks, [
    'counter packets 0 bytes 0 comment "a, b : c"',
    "",
    "timeout 1h expires 59m",
  ]);
});

Deno.test("a flowtable is compared without its devices", () => {
  const listing = (...lines: readonly string[]) =>
    atOnce(parsingListing(
      `table inet signpost {\n\tflowtable fast-path {\n${
        lines.map((line) => `\t\t${line}\n`).join("")
      }\t}\n}\n`,
    ))?.declarations.get("fast-path");
  const wanted = canonicalDeclaration("flowtable", tableSet("fastPath", {}).body.split("; "));
  const hook = "hook ingress priority 0";
  assertEquals(listing(hook, "counter"), wanted);
  assertEquals(listing(hook, 'devices = { "eth0", veth1 }', "counter"), wanted);
  assertNotEquals(listing(hook, "devices = { eth0 }"), wanted);
});
