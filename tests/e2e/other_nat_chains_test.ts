import { FAMILIES } from "../../lib/model/values/address.ts";
import type { Network } from "../support/network.ts";
import { NODE } from "../support/topology.ts";
import { applyOnce, createCluster } from "./case.ts";
import {
  ADDRESSES,
  type Addresses,
  type Manifest,
  NODE_PORT,
  PORT,
  service,
  slice,
  TARGET_PORT,
} from "./cluster.ts";
import { assertFlows, type Flow } from "./flow.ts";

/** The endpoints of `shop/web`. */
const REACHES = ["local1", "remote1"] as const;

/** Services of every kind of frontend, one that its own endpoint asks, and one with affinity. */
function objects(a: Addresses): Manifest[] {
  const ingress = [{ ip: a.loadBalancer }];
  const hairpin = { clusterIP: a.clusterIP2, sessionAffinity: "ClientIP" };
  return [
    service(a, { spec: { type: "LoadBalancer", externalIPs: [a.externalIP] }, ingress }),
    slice(a, REACHES),
    service(a, { name: "own", spec: hairpin }),
    slice(a, ["local1"], { service: "own" }),
  ];
}

/** Packets of every kind, and one of no Service, which the plugin sends to `client`. */
function flows(a: Addresses): Flow[] {
  const frontends = [{ to: a.loadBalancer }, { to: a.externalIP }, { to: a.node, port: NODE_PORT }];
  return [
    { from: "pod", to: a.clusterIP, reaches: REACHES },
    ...(["node", "client"] as const).map((from) => (
      { from, to: a.clusterIP, reaches: REACHES, masqueraded: true }
    )),
    ...(["pod", "node", "client"] as const).flatMap((from) =>
      frontends.map((frontend) => ({ from, ...frontend, reaches: REACHES, masqueraded: true }))
    ),
    { from: "local1", to: a.clusterIP2, reaches: ["local1"], masqueraded: true },
    { from: "pod", to: a.clusterIP2, reaches: ["local1"] },
    { from: "pod", to: a.client2, port: TARGET_PORT, reaches: ["client"], protocols: ["tcp"] },
  ];
}

/** The ports that the plugin sends to `client`, whatever their address outside of the cluster. */
const PORTS = [PORT, NODE_PORT, TARGET_PORT];

/**
 * Installs a network plugin's rules, which decide by the destination: they mark connections that leave
 * the cluster, send some ports elsewhere, and route what is marked to `client`.
 */
async function installPlugin(network: Network, a: Addresses, by: "nft" | "iptables") {
  const [ip, version] = a.family === 4 ? ["ip", ""] : ["ip6", "-6 "];
  await network.ip(NODE, [
    `${version}rule add fwmark 0x80/0x80 lookup 200`,
    `${version}route add default dev client table 200`,
  ]);
  const leaves = `${ip} daddr != ${a.clusterCIDR}`;
  const to = a.family === 4 ? a.client : `[${a.client}]`;
  const nat = [
    `${leaves} ct mark set 0x80`,
    `${leaves} meta l4proto { tcp, udp } th dport { ${PORTS.join(", ")} } dnat ${ip} to ${to}`,
  ].join("\n");
  const route = "ct direction original ct mark 0x80 meta mark set meta mark | 0x80";
  await network.applyNft(`table inet plugin {
    chain prerouting { type filter hook prerouting priority -90; ${route}; }
    chain output { type route hook output priority -90; ${route}; }
  }\n`);
  if (by === "nft") {
    return await network.applyNft(`table inet plugin {
      chain nat-prerouting { type nat hook prerouting priority -100; ${nat}
      }
      chain nat-output { type nat hook output priority -100; ${nat}
      }
    }\n`);
  }
  for (const chain of ["PREROUTING", "OUTPUT"]) {
    const program = a.family === 4 ? "iptables" : "ip6tables";
    const add = [program, "-t", "nat", "-A", chain, "!", "-d", a.clusterCIDR];
    await network.run(NODE, [...add, "-j", "CONNMARK", "--set-mark", "0x80"]);
    for (const protocol of ["tcp", "udp"]) {
      const ports = ["-m", "multiport", "--dports", PORTS.join(",")];
      const dnat = ["-j", "DNAT", "--to-destination", a.client];
      await network.run(NODE, [...add, "-p", protocol, ...ports, ...dnat]);
    }
  }
}

const PLUGINS = [
  { mode: "nftables", by: "nft" },
  { mode: "nftables", by: "iptables" },
  { mode: "iptables", by: "iptables" },
] as const;

for (const family of FAMILIES) {
  for (const { mode, by } of PLUGINS) {
    for (const order of ["before", "after"] as const) {
      Deno.test(`nat rules of ${by} ${order} ours leave Services alone, ${mode} (IPv${family})`, async () => {
        const a = ADDRESSES[family];
        await using network = await createCluster();
        if (order === "before") await installPlugin(network, a, by);
        await applyOnce(network, { a, objects: objects(a), config: { mode } });
        if (order === "after") await installPlugin(network, a, by);
        await assertFlows(network, flows(a));
      });
    }
  }
}
