/** Makes the leftovers of kube-proxy's ipvs mode. */
import { ADDRESS_BITS } from "../../lib/model/values/address.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import type { ProxiedFamily, ProxiedPort } from "./kube_proxy.ts";
import { forwardRules, masqueradeRules, natJumps } from "./kube_proxy_iptables.ts";

/**
 * The chains of kube-proxy's ipvs mode, for a family's restore program with `--noflush`.
 *
 * The real ones ask sets of ipset what ip_vs serves. Here, where the kernel may have neither, the
 * addresses stand in the rules, and DNAT to the first endpoint stands for ip_vs.
 */
export function kubeProxyIpvs({ family, clusterCIDR, ports }: ProxiedFamily): string {
  const host = (address: string) => `${address}/${ADDRESS_BITS[family]}`;
  const filterJumps = [
    ["FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules"],
    ["INPUT", "KUBE-NODE-PORT", "kubernetes health check rules"],
    ["INPUT", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"],
    ["FORWARD", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"],
    ["INPUT", "KUBE-IPVS-FILTER", "kubernetes ipvs access filter"],
    ["OUTPUT", "KUBE-IPVS-OUT-FILTER", "kubernetes ipvs access filter"],
  ] as const;
  const filterChains = [...new Set(filterJumps.map(([, to]) => to))];
  const clusterIPs = [...new Set(ports.map(({ clusterIP }) => clusterIP))];
  const served = (port: ProxiedPort) => {
    const [first] = port.endpoints;
    if (!first) throw new Error(`${port.name} has no endpoint`);
    const target = `-j DNAT --to-destination ${hostPort(first.address, first.port)}`;
    const to = (address: string) =>
      `-d ${host(address)} -p ${port.protocol} -m ${port.protocol} --dport ${port.port}`;
    return [
      `-A KUBE-SERVICES ${to(port.loadBalancerIP)} -j KUBE-LOAD-BALANCER`,
      `-A KUBE-SERVICES ${to(port.loadBalancerIP)} ${target}`,
      `-A KUBE-SERVICES ! -s ${clusterCIDR} ${to(port.clusterIP)} -j KUBE-MARK-MASQ`,
      `-A KUBE-SERVICES ${to(port.clusterIP)} ${target}`,
      `-I KUBE-POSTROUTING -s ${host(first.address)} -d ${host(first.address)} -j MASQUERADE`,
      `-A KUBE-NODE-PORT -p ${port.protocol} -m ${port.protocol} --dport ${port.nodePort} ` +
      "-j KUBE-MARK-MASQ",
      `-A KUBE-NODE-PORT -p ${port.protocol} -m ${port.protocol} --dport ${port.nodePort} ${target}`,
    ];
  };
  return [
    "*filter",
    ...filterChains.map((chain) => `:${chain} - [0:0]`),
    ":KUBE-SOURCE-RANGES-FIREWALL - [0:0]",
    ...filterJumps.map(([from, to, note]) => `-I ${from} -m comment --comment "${note}" -j ${to}`),
    ...clusterIPs.map((address) =>
      `-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -d ${host(address)} -p icmp${
        family === 4 ? "" : "v6"
      } -j REJECT`
    ),
    "-A KUBE-SOURCE-RANGES-FIREWALL -j DROP",
    ...forwardRules(),
    "COMMIT",
    "*nat",
    ...["KUBE-MARK-MASQ", "KUBE-POSTROUTING", "KUBE-SERVICES", "KUBE-LOAD-BALANCER"]
      .map((chain) => `:${chain} - [0:0]`),
    ":KUBE-NODE-PORT - [0:0]",
    ...natJumps(),
    ...masqueradeRules(),
    "-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ",
    ...ports.flatMap(served),
    "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT",
    "COMMIT",
    "",
  ].join("\n");
}
