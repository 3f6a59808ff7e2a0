import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { CheckReport } from "../../lib/cli/check.ts";
import { runSignpost } from "../support/signpost.ts";
import { httpGet } from "../support/http.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, service, slice, TARGET_PORT } from "./cluster.ts";
import { assertFlows, type Flow, nodePortFlow } from "./flow.ts";
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
    ["iptables", "nft"],
    ["iptables", "iptables"],
  ] as const
) {
  test(`the lines to type let Services work beside a ${program} firewall (${mode})`, async () => {
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
    // In its own iptables, iptables mode accepts health checks.
    const isAccepted = mode === "iptables" && program === "iptables";
    if (!isAccepted) await signpost.waitForLog(/WARN .*finding=firewall-drops-health-checks/);
    const dropped = nodePortFlow(a, { ...flow, reaches: "drop" });
    await assertFlows(network, [dropped]);
    const { code, stdout } = await runSignpost(network, ["check", ...stage.args]);
    assertEquals(code, 1, stdout);
    assertStringIncludes(stdout, "[firewall-drops-services]");
    assertEquals(stdout.includes("[firewall-drops-health-checks]"), !isAccepted);
    const packet = ["--from", "external", "to", `${a.node}:30080/tcp`];
    const explained = await stage.run("explain", ...packet);
    const [table, chain] = CHAINS[program];
    assertEquals(explained.code, 1, explained.stdout);
    assertStringIncludes(
      explained.stdout,
      `should be delivered, but table ${table} drops it (chain ${chain})`,
    );
    const lines = [...signpost.log.matchAll(/WARN .* remedy="Accept them: ([^"]*)"/g)];
    assertEquals(lines.length, isAccepted ? 1 : 2, signpost.log);
    for (const [, line = ""] of lines) await network.run(NODE, ["sh", "-ec", line]);
    await assertFlows(network, [nodePortFlow(a, { ...flow, reaches: ["local1"] })]);
    assertMatch((await httpGet(network, health)).body, /"localEndpoints": ?1/);
  });
}

/** Rules of Docker after a start without forwarding, for all but its own bridge. */
const DOCKER = `ip link add docker0 type bridge
ip addr add 172.17.0.1/16 dev docker0
ip link set docker0 up
iptables -N DOCKER-USER
iptables -A DOCKER-USER -j RETURN
iptables -A FORWARD -j DOCKER-USER
iptables -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
iptables -A FORWARD -i docker0 ! -o docker0 -j ACCEPT
iptables -A FORWARD -i docker0 -o docker0 -j ACCEPT
iptables -P FORWARD DROP`;

/** Firewalls of other hooks, and the hosts whose connections each of them drops. */
const ELSEWHERE: readonly (readonly [
  place: string,
  rules: string,
  lost: readonly ("client" | "pod" | "node")[],
  modes?: readonly string[],
])[] = [
  ["Docker's FORWARD", DOCKER, ["client", "pod"], ["nftables"]],
  // iptables mode accepts packets to be masqueraded in this chain.
  ["Docker's FORWARD", DOCKER, ["pod"], ["iptables"]],
  [
    "prerouting",
    `nft -f - <<'END'
table inet fw {
  chain in {
    type filter hook prerouting priority -140; policy drop;
    iifname "lo" accept
    meta nfproto ipv6 accept
    ct state established,related accept
    ip saddr 10.244.0.0/16 accept
  }
}
END`,
    ["client"],
  ],
  [
    "output",
    "nft 'table inet fw { chain out { type filter hook output priority 0; ct status dnat drop; }; }'",
    ["node"],
  ],
  [
    "netdev",
    "nft 'table netdev fw { chain in { type filter hook ingress devices = { eth0, client } " +
    "priority 0; tcp dport 30080 drop; }; }'",
    ["client"],
  ],
  ["raw", "iptables -t raw -A PREROUTING -p tcp --dport 30080 -j DROP", ["client"]],
  [
    "mangle",
    "iptables -t mangle -A POSTROUTING -m conntrack --ctstate DNAT -p tcp -j DROP",
    ["client", "pod", "node"],
  ],
];

for (const [place, rules, lost, modes = ["nftables", "iptables"]] of ELSEWHERE) {
  for (const mode of modes) {
    test(`the lines to type let Services work beside a firewall in ${place} (${mode})`, async () => {
      const a = ADDRESSES[4];
      await using stage = await Stage.create({
        objects: [service(a, { spec: { type: "NodePort" } }), slice(a, ["local1"])],
        config: { mode },
      });
      const { network } = stage;
      await using signpost = stage.start(stage.socket);
      await signpost.waitForLog(/ ready /);
      const protocols = ["tcp"] as const;
      const flows = (isDropped: (host: string) => boolean): Flow[] => {
        const reaches = (host: string) => isDropped(host) ? "drop" : ["local1"] as const;
        return [
          nodePortFlow(a, {
            from: "client",
            protocols,
            reaches: reaches("client"),
            masqueraded: true,
          }),
          { from: "pod", protocols, to: a.clusterIP, reaches: reaches("pod") },
          { from: "node", protocols, to: a.clusterIP, reaches: reaches("node"), masqueraded: true },
        ];
      };
      const check = async () => {
        const { stdout } = await stage.run("check", "-o", "json");
        const { findings } = JSON.parse(stdout) as CheckReport;
        return findings.filter(({ id }) => id.startsWith("firewall-"));
      };
      await assertFlows(network, flows(() => false));
      assertEquals(await check(), []);
      await network.run(NODE, ["sh", "-ec", rules]);
      await assertFlows(network, flows((host) => lost.some((each) => each === host)));
      const [found, ...others] = await check();
      const senders = new Set(found?.drops?.map((each) => each.split(" ")[0]));
      const expected = lost.map((host) => host === "client" ? "external" : host);
      assertEquals([found?.id, senders, others], [
        "firewall-drops-services",
        new Set(expected),
        [],
      ]);
      const line = found?.remedy.replace(/^Accept them: /, "") ?? "";
      await network.run(NODE, ["sh", "-ec", line]);
      await assertFlows(network, flows(() => false));
      assertEquals(await check(), []);
    });
  }
}

test("the line to type lets an endpoint behind a firewall on the node work", async () => {
  const a = ADDRESSES[4];
  const spec = { type: "NodePort" };
  const onNode = { ...slice(a, []), endpoints: [{ addresses: [a.node], nodeName: "node1" }] };
  await using stage = await Stage.create({ objects: [service(a, { spec }), onNode] });
  const { network } = stage;
  network.serve(NODE, { protocol: "tcp", port: TARGET_PORT });
  await network.run(NODE, ["sh", "-ec", iptablesFirewall("iptables -w")]);
  await network.run(NODE, ["iptables", "-P", "FORWARD", "ACCEPT"]);
  await using signpost = stage.start(stage.socket);
  await signpost.waitForLog(
    /WARN chain INPUT .* drops connections from outside and pods .*finding=firewall-drops-services/,
  );
  const flow = { from: "pod", protocols: ["tcp"], to: a.clusterIP } as const;
  await assertFlows(network, [{ ...flow, reaches: "drop" }]);
  const [, line = ""] = /remedy="Accept them: ([^"]*)"/.exec(signpost.log) ?? [];
  await network.run(NODE, ["sh", "-ec", line]);
  await assertFlows(network, [{ ...flow, reaches: ["node"] }]);
});
