import { casesOf } from "../support/table.ts";
import { assertEquals } from "@std/assert";
import { parseSaved } from "../../lib/backend/iptables/kernel/saved.ts";
import { legacyChains, parseRoutes, translateTable } from "../../lib/backend/foreign_filters.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { ProgramMissingError } from "../../lib/model/ports/ports.ts";
import { ManualClock } from "../support/clock_and_log.ts";
import { SILENT_RUNNER } from "../support/modes.ts";

const clock = new ManualClock();

function translated(rule: string): string | undefined {
  const text = `*filter\n:FORWARD DROP [0:0]\n:other - [0:0]\n-A FORWARD ${rule}\nCOMMIT\n`;
  const filter = atOnce(parseSaved(text)).get("filter");
  return filter && translateTable(filter, 4)[0]?.rules[0];
}

const RULES = casesOf(`
-j ACCEPT => accept
-p tcp -m tcp --dport 22 -j ACCEPT => meta l4proto tcp th dport { 22 } accept
-p tcp -m multiport --dports 443,1000:2000 -j RETURN => meta l4proto tcp th dport { 443, 1000-2000 } return
-s 10.0.0.0/8 ! -d 10.244.0.0/16 -j DROP => ip saddr 10.0.0.0/8 ip daddr != 10.244.0.0/16 drop
-i lo ! -o eth0 -j ACCEPT => iifname "lo" oifname != "eth0" accept
-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT => ct state { related, established } accept
-m conntrack ! --ctstate NEW,INVALID -j ACCEPT => ct state != { new, invalid } accept
-m conntrack --ctstate DNAT -j ACCEPT => ct status dnat accept
-m addrtype --dst-type LOCAL -j ACCEPT => fib daddr type local accept
-m comment --comment "let all in" -j REJECT --reject-with icmp-port-unreachable => reject
-p icmp -j other => meta l4proto icmp jump other
-g other => goto other
-j NFQUEUE --queue-num 1 => queue
-j LOG --log-prefix "[UFW BLOCK] " => 
-m set --match-set trusted src -j ACCEPT => xt match "-m" xt match "--match-set" xt match "src" accept
-i cali+ -m mark --mark 0x10000/0x10000 -j RETURN => iifname "cali*" meta mark & 0x10000 == 0x10000 return
-m mark ! --mark 0x4000/0x4000 -j DROP => meta mark & 0x4000 != 0x4000 drop
-m mark ! --mark 0x1 -j DROP => meta mark != 0x1 drop
-m connmark --mark 0x1 -j DROP => xt match "-m" meta mark 0x1 drop
-j MARK --set-xmark 0x10000/0x10000 => meta mark set meta mark & 0xfffeffff ^ 0x10000
-m limit --limit 3/min --limit-burst 10 -j ACCEPT => limit rate 3/min burst 10 packets accept
! -i docker0 -p tcp -m tcp --dport 80 -j DNAT --to-destination 172.17.0.2:80 => iifname != "docker0" meta l4proto tcp th dport { 80 } dnat to 172.17.0.2:80
-m rpfilter -j ACCEPT => xt match "-m" accept
`);

for (const [saved, nft] of RULES) {
  Deno.test(`a rule of iptables-legacy is translated: ${saved}`, () => {
    assertEquals(translated(saved), nft);
  });
}

Deno.test("chains of both families are read with hook and policy, our chains of nat are not", async () => {
  const text =
    "*nat\n:OUTPUT ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\nCOMMIT\n*raw\n:PREROUTING DROP [0:0]\nCOMMIT\n*filter\n:FORWARD DROP [0:0]\n:own - [0:0]\nCOMMIT\n";
  const run = ([program = ""]: readonly string[]) =>
    Promise.resolve({ code: program.startsWith("ip6") ? 1 : 0, stdout: text, stderr: "" });
  const hook = { type: "filter", hook: "forward", priority: 0, policy: "drop", devices: [] };
  assertEquals(await legacyChains({ clock, runner: { run } }), [
    {
      table: "iptables-legacy nat",
      name: "OUTPUT",
      hook: { type: "nat", hook: "output", priority: -100, policy: "accept", devices: [] },
      rules: [],
    },
    {
      table: "iptables-legacy raw",
      name: "PREROUTING",
      hook: { ...hook, hook: "prerouting", priority: -300 },
      rules: [],
    },
    { table: "iptables-legacy filter", name: "FORWARD", hook, rules: [] },
    { table: "iptables-legacy filter", name: "own", hook: undefined, rules: [] },
  ]);
});

Deno.test("a node without iptables-legacy has no chains of it", async () => {
  assertEquals(await legacyChains({ clock, runner: SILENT_RUNNER }), []);
  const run = () => Promise.reject(new ProgramMissingError("iptables-legacy-save"));
  assertEquals(await legacyChains({ clock, runner: { run } }), []);
});

Deno.test("routes are read without those that refuse", () => {
  const ipv4 = `Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t00000000\t0101A8C0\t0003\t0\t0\t200\t00000000\t0\t0\t0
eth0\t00000000\t014DA8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
cni0\t0000F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
*\t0000400A\t00000000\t0201\t0\t0\t0\t0000FFFF\t0\t0\t0
`;
  assertEquals(parseRoutes(ipv4, 4), [
    { cidr: "0.0.0.0/0", device: "eth0" },
    { cidr: "10.244.0.0/24", device: "cni0" },
  ]);
  const none = "00000000000000000000000000000000";
  const range = "fd440000000000000000000000000000";
  const ipv6 = `${range} 40 ${none} 00 ${none} 00000100 00000001 00000000 00000001     cni0
${none} 00 ${none} 00 ${none} ffffffff 00000001 00000000 00200200       lo
`;
  assertEquals(parseRoutes(ipv6, 6), [{ cidr: "fd44::/64", device: "cni0" }]);
  assertEquals(parseRoutes("nonsense\n", 4), []);
});
