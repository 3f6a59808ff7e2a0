import { assertEquals } from "@std/assert";
import { parseListing } from "../../../../lib/backend/nftables/kernel/contents.ts";
import { fingerprint } from "../../../../lib/backend/nftables/kernel/fingerprint.ts";

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
		type nat hook prerouting priority dstnat; policy accept;
		jump services
	}

	chain empty {
	}
}
`;

Deno.test("a listing of nft 1.1 is read as one of nft 1.0", () => {
  const contents = parseListing(LISTING_1_1);
  const sets = new Map([...contents?.sets ?? []].map(([name, map]) => [name, [...map]]));
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
    "nat-prerouting": ["type nat hook prerouting policy accept", "jump services"],
    empty: [],
  });
});

Deno.test("text without a table has no contents", () => {
  assertEquals(parseListing(""), undefined);
});

Deno.test("rules that are spelled in different ways do the same", () => {
  for (
    const [written, printed] of [
      ["meta mark set meta mark | 0x4000", "meta mark set meta mark | 0x00004000"],
      ["reject", "reject with icmpx port-unreachable"],
      ["ip daddr @cluster-ips4 reject", "ip daddr @cluster-ips4 reject with icmp port-unreachable"],
      [
        "update @affinity4-x { ip saddr timeout 10800s }",
        "update @affinity4-x { ip saddr timeout 3h }",
      ],
      ["meta l4proto udp dnat ip to 10.244.0.1:80", "meta l4proto 17 dnat ip to 10.244.0.1:80"],
      ["ip daddr { 10.0.0.1/32 } accept", "ip daddr 10.0.0.1 accept"],
      [
        "ip daddr { 10.0.2.0/24, 10.0.0.0/24, 10.0.1.0/24 } accept",
        "ip daddr { 10.0.0.0-10.0.2.255 } accept",
      ],
      ["ip6 daddr { fd00::/65, fd00::8000:0:0:0/65 }", "ip6 daddr { fd00::/64 }"],
      [
        "numgen random mod 2 vmap { 0 : goto a, 1 : goto b }",
        "numgen random mod 2 vmap { 0 : goto b, 1 : goto a }",
      ],
    ] as const
  ) assertEquals(fingerprint(printed), fingerprint(written), written);
});

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
  ];
  assertEquals(new Set(rules.map(fingerprint)).size, rules.length);
});
