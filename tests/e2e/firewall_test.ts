import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { runSignpost } from "../support/signpost.ts";
import { httpGet } from "../support/http.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, service, slice } from "./cluster.ts";
import { assertFlows, nodePortFlow } from "./flow.ts";
import { Stage } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("firewalls that drop");

const HEALTH_CHECK_PORT = 32_111;

/** Rules of a program such as `iptables-legacy`, as ufw and Docker order theirs. */
function iptablesFirewall(program: string): string {
  return `${program} -N guests
${program} -A guests -s 198.51.100.7 -j ACCEPT
for chain in FORWARD INPUT; do
  ${program} -P $chain DROP
  ${program} -A $chain -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  ${program} -A $chain -p tcp --dport 22 -j ACCEPT
  ${program} -A $chain -p icmp -j guests
done
${program} -A INPUT -i lo -j ACCEPT`;
}

/** Firewalls that let in ssh and what was asked for, and drop all else. */
const FIREWALLS = {
  iptables: iptablesFirewall("iptables"),
  "iptables-legacy": iptablesFirewall("iptables-legacy"),
  nft: `nft -f - <<'END'
table inet host {
  chain forward {
    type filter hook forward priority 0; policy drop;
    ct state vmap { established : accept, related : accept, invalid : drop }
  }
  chain input {
    type filter hook input priority 0;
    iifname "lo" accept
    ct state established,related accept
    tcp dport 22 accept
    reject with icmpx admin-prohibited
  }
}
END`,
} as const;

/** The table and the chain of each that drop what is forwarded. */
const CHAINS: Readonly<Record<keyof typeof FIREWALLS, readonly [string, string]>> = {
  iptables: ["ip filter", "FORWARD"],
  "iptables-legacy": ["iptables-legacy filter", "FORWARD"],
  nft: ["inet host", "forward"],
};

for (
  const [mode, program] of [
    ["nftables", "iptables"],
    ["nftables", "iptables-legacy"],
    ["nftables", "nft"],
    // In the chains of its own iptables, iptables mode accepts what Services send.
    ["iptables", "nft"],
  ] as const
) {
  test(`a firewall of ${program} that drops is found in ${mode} mode, and the lines to type let Services work`, async () => {
    const a = ADDRESSES[4];
    const spec = {
      type: "LoadBalancer",
      externalTrafficPolicy: "Local",
      healthCheckNodePort: HEALTH_CHECK_PORT,
    };
    await using stage = await Stage.create({
      objects: [service(a, { spec }), slice(a, ["local1"])],
      config: { mode },
    });
    const { network } = stage;
    await network.run(NODE, ["sh", "-ec", FIREWALLS[program]]);
    await using signpost = stage.start(stage.socket);
    const flow = { from: "client", protocols: ["tcp"] } as const;
    const health = { from: "client", address: a.node, port: HEALTH_CHECK_PORT, path: "/" };
    await signpost.waitForLog(/WARN .*finding=firewall-drops-services/);
    await signpost.waitForLog(/WARN .*finding=firewall-drops-health-checks/);
    const dropped = nodePortFlow(a, { ...flow, reaches: "drop" });
    await assertFlows(network, [dropped]);
    const { code, stdout } = await runSignpost(network, ["check", ...stage.args]);
    assertEquals(code, 1, stdout);
    assertMatch(
      stdout,
      /firewall-drops-health-checks[^]*firewall-drops-services|firewall-drops-services[^]*firewall-drops-health-checks/,
    );
    const packet = ["explain", "--from", "external", "to", `${a.node}:30080/tcp`];
    const explained = await runSignpost(network, [...packet, ...stage.args, ...stage.socket]);
    const [table, chain] = CHAINS[program];
    assertEquals(explained.code, 1, explained.stdout);
    assertStringIncludes(
      explained.stdout,
      `should be delivered, but table ${table} drops it (chain ${chain})`,
    );
    const lines = [...signpost.log.matchAll(/WARN .* remedy="Accept them: ([^"]*)"/g)];
    assertEquals(lines.length, 2, signpost.log);
    for (const [, line = ""] of lines) await network.run(NODE, ["sh", "-ec", line]);
    await assertFlows(network, [nodePortFlow(a, { ...flow, reaches: ["local1"] })]);
    assertMatch((await httpGet(network, health)).body, /"localEndpoints": ?1/);
  });
}

test("a firewall that comes while the daemon runs is found by the next check", async () => {
  const a = ADDRESSES[4];
  const spec = { type: "NodePort" };
  await using stage = await Stage.create({ objects: [service(a, { spec }), slice(a, ["local1"])] });
  await using _signpost = await stage.startSynced(stage.socket);
  const check = () => runSignpost(stage.network, ["check", ...stage.args, ...stage.socket]);
  const before = await check();
  assertEquals(before.code, 0, before.stdout);
  await stage.network.run(NODE, ["sh", "-ec", FIREWALLS.nft]);
  const after = await check();
  assertEquals(after.code, 1, after.stdout);
  assertStringIncludes(after.stdout, "firewall-drops-services");
});
