import { assertEquals } from "@std/assert";
import { parseSaved } from "../../lib/backend/iptables/kernel/saved.ts";
import { legacyChains, translateFilter } from "../../lib/backend/foreign_filters.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { ProgramMissingError } from "../../lib/model/ports/ports.ts";
import { SILENT_RUNNER } from "../support/modes.ts";

function translated(rule: string): string | undefined {
  const text = `*filter\n:FORWARD DROP [0:0]\n:other - [0:0]\n-A FORWARD ${rule}\nCOMMIT\n`;
  const filter = atOnce(parseSaved(text)).get("filter");
  return filter && translateFilter(filter, 4)[0]?.rules[0];
}

const RULES: readonly (readonly [saved: string, nft: string])[] = [
  ["-j ACCEPT", "accept"],
  ["-p tcp -m tcp --dport 22 -j ACCEPT", "meta l4proto tcp th dport { 22 } accept"],
  [
    "-p tcp -m multiport --dports 443,1000:2000 -j RETURN",
    "meta l4proto tcp th dport { 443, 1000-2000 } return",
  ],
  [
    "-s 10.0.0.0/8 ! -d 10.244.0.0/16 -j DROP",
    "ip saddr 10.0.0.0/8 ip daddr != 10.244.0.0/16 drop",
  ],
  ["-i lo ! -o eth0 -j ACCEPT", 'iifname "lo" oifname != "eth0" accept'],
  [
    "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    "ct state { related, established } accept",
  ],
  [
    "-m conntrack ! --ctstate NEW,INVALID -j ACCEPT",
    "ct state != { new, invalid } accept",
  ],
  ["-m conntrack --ctstate DNAT -j ACCEPT", "ct status dnat accept"],
  ["-m addrtype --dst-type LOCAL -j ACCEPT", "fib daddr type local accept"],
  ['-m comment --comment "let all in" -j REJECT --reject-with icmp-port-unreachable', "reject"],
  ["-p icmp -j other", "meta l4proto icmp jump other"],
  ["-g other", "goto other"],
  ["-j NFQUEUE --queue-num 1", "queue"],
  ['-j LOG --log-prefix "[UFW BLOCK] "', ""],
  [
    "-m set --match-set trusted src -j ACCEPT",
    'xt match "-m" xt match "--match-set" xt match "src" accept',
  ],
  ["-m rpfilter -j ACCEPT", 'xt match "-m" accept'],
];

for (const [saved, nft] of RULES) {
  Deno.test(`a rule of iptables-legacy is translated: ${saved}`, () => {
    assertEquals(translated(saved), nft);
  });
}

Deno.test("chains of both families are read with hook and policy, other tables are not", async () => {
  const text =
    "*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n*filter\n:FORWARD DROP [0:0]\n:own - [0:0]\nCOMMIT\n";
  const run = ([program = ""]: readonly string[]) =>
    Promise.resolve({ code: program.startsWith("ip6") ? 1 : 0, stdout: text, stderr: "" });
  const hook = { type: "filter", hook: "forward", priority: 0, policy: "drop" };
  assertEquals(await legacyChains({ run }), [
    { table: "iptables-legacy filter", name: "FORWARD", hook, rules: [] },
    { table: "iptables-legacy filter", name: "own", hook: undefined, rules: [] },
  ]);
});

Deno.test("a node without iptables-legacy has no chains of it", async () => {
  assertEquals(await legacyChains(SILENT_RUNNER), []);
  const run = () => Promise.reject(new ProgramMissingError("iptables-legacy-save"));
  assertEquals(await legacyChains({ run }), []);
});
