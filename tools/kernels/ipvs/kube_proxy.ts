/**
 * The state that kube-proxy's ipvs mode leaves, in a kernel that has ip_vs: `kube-ipvs0` with all
 * virtual IPs, virtual servers, sets of ipset, chains of iptables, kernel settings.
 *
 * @module
 */
import type { Family } from "../../../lib/model/values/address.ts";
import { hostPort } from "../../../lib/model/cluster/names.ts";
import { ADDRESSES, PORT } from "../../../tests/e2e/cluster.ts";
import {
  forwardRules,
  masqueradeRules,
  natJumps,
} from "../../../tests/support/kube_proxy_iptables.ts";
import { run } from "../../../tests/support/command.ts";
import type { Network } from "../../../tests/support/network.ts";
import { addAddress, NODE } from "../../../tests/support/topology.ts";
import { ENDPOINT_PORT, NODE_PORTS, servedOf, vipsOf } from "./objects.ts";

/** What kube-proxy sets (`pkg/proxy/ipvs/proxier.go`, `NewProxier`). */
const SETTINGS = [
  "conntrack=1",
  "conn_reuse_mode=0",
  "expire_nodest_conn=1",
  "expire_quiescent_template=1",
];

const MODULES = ["dummy", "ip_vs", "ip_vs_rr", "ip_set", "xt_set"];

const PROTOCOLS = { tcp: "-t", udp: "-u" } as const;

/** Makes the state in the node. */
export async function leaveIpvs(
  network: Network,
  families: readonly Family[],
  restore: Readonly<Record<Family, string>>,
): Promise<void> {
  await run(["modprobe", "-a", ...MODULES]);
  await network.ip(NODE, ["link add kube-ipvs0 type dummy"]);
  await network.run(NODE, ["sysctl", "-qw", ...SETTINGS.map((each) => `net.ipv4.vs.${each}`)]);
  for (const family of families) {
    const { vips, servers } = servedOf(family);
    await network.ip(NODE, vips.map((vip) => addAddress(vip, "kube-ipvs0")));
    const lines = servers.flatMap(({ address, port, endpoints }) =>
      Object.values(PROTOCOLS).flatMap((flag) => {
        const at = `${flag} ${hostPort(address, port)}`;
        const real = endpoints.map((each) =>
          `-a ${at} -r ${hostPort(each, ENDPOINT_PORT)} -m -w 1`
        );
        return [`-A ${at} -s rr`, ...real];
      })
    );
    await network.run(NODE, ["ipvsadm", "-R"], { stdin: `${lines.join("\n")}\n` });
    await network.run(NODE, ["ipset", "restore"], { stdin: sets(family) });
    await network.run(NODE, [restore[family], "-w", "5", "--noflush"], { stdin: chains(family) });
  }
}

function setName(family: Family, name: string): string {
  return family === 4 ? `KUBE-${name}` : `KUBE-6-${name}`;
}

function sets(family: Family): string {
  const inet = family === 4 ? "inet" : "inet6";
  const { vips } = servedOf(family);
  const { clusterIPs, deleted, empty, loadBalancer, deletedLoadBalancer, externalIP } = vipsOf(
    family,
  );
  const create = (name: string, type: string) => `create ${setName(family, name)} ${type}`;
  const ports = (name: string, addresses: readonly string[]) =>
    addresses.flatMap((address) =>
      Object.keys(PROTOCOLS).map((protocol) =>
        `add ${setName(family, name)} ${address},${protocol}:${PORT}`
      )
    );
  const a = ADDRESSES[family];
  return [
    create("CLUSTER-IP", `hash:ip,port family ${inet}`),
    create("LOAD-BALANCER", `hash:ip,port family ${inet}`),
    create("EXTERNAL-IP", `hash:ip,port family ${inet}`),
    create("LOOP-BACK", `hash:ip,port,ip family ${inet}`),
    create("NODE-PORT-TCP", "bitmap:port range 0-65535"),
    create("NODE-PORT-UDP", "bitmap:port range 0-65535"),
    create("HEALTH-CHECK-NODE-PORT", "bitmap:port range 0-65535"),
    create("IPVS-IPS", `hash:ip family ${inet}`),
    ...ports("CLUSTER-IP", [...clusterIPs, deleted, empty]),
    ...ports("LOAD-BALANCER", [loadBalancer, deletedLoadBalancer]),
    ...ports("EXTERNAL-IP", [externalIP]),
    ...[a.local1].map((own) =>
      `add ${setName(family, "LOOP-BACK")} ${own},tcp:${ENDPOINT_PORT},${own}`
    ),
    ...Object.values(NODE_PORTS).flatMap((port) => [
      `add ${setName(family, "NODE-PORT-TCP")} ${port}`,
      `add ${setName(family, "NODE-PORT-UDP")} ${port}`,
    ]),
    ...vips.map((vip) => `add ${setName(family, "IPVS-IPS")} ${vip}`),
    "",
  ].join("\n");
}

function chains(family: Family): string {
  const set = (name: string, what: string) => `-m set --match-set ${setName(family, name)} ${what}`;
  const filterJumps = [
    ["FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules"],
    ["INPUT", "KUBE-NODE-PORT", "kubernetes health check rules"],
    ["INPUT", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"],
    ["FORWARD", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"],
    ["INPUT", "KUBE-IPVS-FILTER", "kubernetes ipvs access filter"],
    ["OUTPUT", "KUBE-IPVS-OUT-FILTER", "kubernetes ipvs access filter"],
  ] as const;
  const filterChains = [...new Set(filterJumps.map(([, to]) => to)), "KUBE-SOURCE-RANGES-FIREWALL"];
  return [
    "*filter",
    ...filterChains.map((chain) => `:${chain} - [0:0]`),
    ...filterJumps.map(([from, to, note]) => `-I ${from} -m comment --comment "${note}" -j ${to}`),
    `-A KUBE-NODE-PORT ${set("HEALTH-CHECK-NODE-PORT", "dst")} -j ACCEPT`,
    ...["LOAD-BALANCER", "CLUSTER-IP", "EXTERNAL-IP"].map((name) =>
      `-A KUBE-IPVS-FILTER ${set(name, "dst,dst")} -j RETURN`
    ),
    `-A KUBE-IPVS-FILTER ${set("HEALTH-CHECK-NODE-PORT", "dst")} -j RETURN`,
    `-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW ${set("IPVS-IPS", "dst")} -j REJECT`,
    "-A KUBE-SOURCE-RANGES-FIREWALL -j DROP",
    ...forwardRules(),
    "COMMIT",
    "*nat",
    ...["MARK-MASQ", "POSTROUTING", "SERVICES", "LOAD-BALANCER", "NODE-PORT"]
      .map((chain) => `:KUBE-${chain} - [0:0]`),
    ...natJumps(),
    `-A KUBE-POSTROUTING ${set("LOOP-BACK", "dst,dst,src")} -j MASQUERADE`,
    ...masqueradeRules(),
    "-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ",
    `-A KUBE-SERVICES -s ${family === 4 ? "127.0.0.0/8" : "::1/128"} -j RETURN`,
    `-A KUBE-SERVICES ${set("LOAD-BALANCER", "dst,dst")} -j KUBE-LOAD-BALANCER`,
    `-A KUBE-SERVICES ${set("CLUSTER-IP", "dst,dst")} ! -s ${
      ADDRESSES[family].clusterCIDR
    } -j KUBE-MARK-MASQ`,
    `-A KUBE-SERVICES ${set("EXTERNAL-IP", "dst,dst")} -j KUBE-MARK-MASQ`,
    "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT",
    ...["CLUSTER-IP", "LOAD-BALANCER"].map((name) =>
      `-A KUBE-SERVICES ${set(name, "dst,dst")} -j ACCEPT`
    ),
    `-A KUBE-NODE-PORT -p tcp ${set("NODE-PORT-TCP", "dst")} -j KUBE-MARK-MASQ`,
    `-A KUBE-NODE-PORT -p udp ${set("NODE-PORT-UDP", "dst")} -j KUBE-MARK-MASQ`,
    "COMMIT",
    "",
  ].join("\n");
}
