/** The rules of kube-proxy's iptables mode. */
import { endpointChainName, serviceChainNames } from "../../lib/backend/iptables/script/names.ts";
import { ADDRESS_BITS } from "../../lib/model/values/address.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import type { ClusterIPPort, PodNetwork, ProxiedFamily, ProxiedPort } from "./kube_proxy.ts";

const MARK = "0x4000";
const NEW = "-m conntrack --ctstate NEW ";

/** The chains of kube-proxy's iptables mode, for a family's restore program with `--noflush`. */
export function kubeProxyIptables(state: ProxiedFamily): string {
  const { family, ports } = state;
  const services = ports.map((port) => iptablesService(port, state));
  const chains = services.flatMap((rules) =>
    rules.flatMap((rule) => /^-A (KUBE-(?:SVC|SEP|EXT)-\S+)/.exec(rule)?.[1] ?? [])
  );
  const loopback = family === 4
    ? [
      "-A KUBE-NODEPORTS ! -s 127.0.0.0/8 -d 127.0.0.0/8 " +
      '-m comment --comment "block incoming localnet connections" ' +
      "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
    ]
    : [];
  const named = (names: readonly string[]) => names.map((name) => `:${name} - [0:0]`);
  return [
    "*mangle",
    ":KUBE-PROXY-CANARY - [0:0]",
    "COMMIT",
    "*filter",
    ...named(["KUBE-PROXY-CANARY", "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD", "KUBE-NODEPORTS"]),
    ...named(["KUBE-PROXY-FIREWALL", "KUBE-SERVICES"]),
    ...["INPUT", "FORWARD"].map((from) =>
      jump(from, "KUBE-EXTERNAL-SERVICES", `${NEW}externally-visible service portals`)
    ),
    jump("INPUT", "KUBE-NODEPORTS", "health check service ports"),
    ...["FORWARD", "OUTPUT"].map((from) => jump(from, "KUBE-SERVICES", `${NEW}service portals`)),
    jump("FORWARD", "KUBE-FORWARD", "forwarding rules"),
    ...["INPUT", "OUTPUT", "FORWARD"].map((from) =>
      jump(from, "KUBE-PROXY-FIREWALL", `${NEW}load balancer firewall`)
    ),
    ...loopback,
    "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
    ...forwardRules(),
    "COMMIT",
    "*nat",
    ...named(["KUBE-PROXY-CANARY", "KUBE-MARK-MASQ", "KUBE-NODEPORTS", "KUBE-POSTROUTING"]),
    ...named(["KUBE-SERVICES", ...new Set(chains)]),
    ...natJumps(),
    ...masqueradeRules(),
    ...services.flat(),
    '-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the ' +
    'last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
    "COMMIT",
    "",
  ].join("\n");
}

/** A jump at the head of a built-in chain; the note may begin with a match. */
function jump(from: string, to: string, note: string): string {
  const match = note.startsWith(NEW) ? NEW : "";
  const text = `kubernetes ${note.slice(match.length)}`;
  return `-I ${from} ${match}-m comment --comment "${text}" -j ${to}`;
}

/** The jumps of the table `nat`, those of the ipvs mode too. */
export function natJumps(): string[] {
  return [
    ...["OUTPUT", "PREROUTING"].map((from) => jump(from, "KUBE-SERVICES", "service portals")),
    jump("POSTROUTING", "KUBE-POSTROUTING", "postrouting rules"),
  ];
}

/** The rules that masquerade what is marked, those of the ipvs mode too. */
export function masqueradeRules(): string[] {
  return [
    `-A KUBE-MARK-MASQ -j MARK --or-mark ${MARK}`,
    `-A KUBE-POSTROUTING -m mark ! --mark ${MARK}/${MARK} -j RETURN`,
    `-A KUBE-POSTROUTING -j MARK --xor-mark ${MARK}`,
    '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" ' +
    "-j MASQUERADE --random-fully",
  ];
}

/** The rules that let Service traffic pass, those of the ipvs mode too. */
export function forwardRules(): string[] {
  return [
    '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" ' +
    `-m mark --mark ${MARK}/${MARK} -j ACCEPT`,
    '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" ' +
    "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
  ];
}

/** The rules of one service port in the table `nat`. */
function iptablesService(port: ProxiedPort, network: PodNetwork): string[] {
  const { name, protocol, loadBalancerIP } = port;
  const { Cluster: cluster, external } = serviceChainNames(name, protocol);
  const fromOutside = comment(`masquerade traffic for ${name} external destinations`);
  return [
    `-A KUBE-SERVICES ${to(port, loadBalancerIP, "loadbalancer IP")} -j ${external}`,
    `-A KUBE-NODEPORTS -p ${protocol} ${comment(name)} -m ${protocol} --dport ${port.nodePort} ` +
    `-j ${external}`,
    `-A ${external} ${fromOutside} -j KUBE-MARK-MASQ`,
    `-A ${external} -j ${cluster}`,
    clusterIPJump(port),
    ...clusterIPRules(port, network),
  ];
}

/** The rule of `KUBE-SERVICES` that leads to a service port's chain. */
function clusterIPJump(port: ClusterIPPort): string {
  const { Cluster: cluster } = serviceChainNames(port.name, port.protocol);
  return `-A KUBE-SERVICES ${to(port, port.clusterIP, "cluster IP")} -j ${cluster}`;
}

/** The rules of a service port's own chain, and of those of its endpoints. */
function clusterIPRules(port: ClusterIPPort, { family, clusterCIDR }: PodNetwork): string[] {
  const { name, protocol, endpoints } = port;
  const { Cluster: cluster } = serviceChainNames(name, protocol);
  const picks = endpoints.map((endpoint, i) => {
    const left = endpoints.length - i;
    const chance = left === 1
      ? ""
      : `-m statistic --mode random --probability ${(1 / left).toFixed(10)} `;
    const at = hostPort(endpoint.address, endpoint.port);
    return `-A ${cluster} ${comment(`${name} -> ${at}`)} ${chance}` +
      `-j ${endpointChainName(port, endpoint)}`;
  });
  const toCluster = to(port, port.clusterIP, "cluster IP");
  return [
    `-A ${cluster} ! -s ${clusterCIDR} ${toCluster} -j KUBE-MARK-MASQ`,
    ...picks,
    ...endpoints.flatMap((endpoint) => {
      const chain = endpointChainName(port, endpoint);
      const at = hostPort(endpoint.address, endpoint.port);
      const host = `${endpoint.address}/${ADDRESS_BITS[family]}`;
      return [
        `-A ${chain} -s ${host} ${comment(name)} -j KUBE-MARK-MASQ`,
        `-A ${chain} -p ${protocol} ${comment(name)} -m ${protocol} -j DNAT --to-destination ${at}`,
      ];
    }),
  ];
}

/** A match of packets to one of a service port's addresses. */
function to({ name, protocol, port }: ClusterIPPort, address: string, what: string): string {
  const host = `${address}/${ADDRESS_BITS[address.includes(":") ? 6 : 4]}`;
  return `-d ${host} -p ${protocol} ${comment(`${name} ${what}`)} -m ${protocol} --dport ${port}`;
}

function comment(text: string): string {
  return `-m comment --comment "${text}"`;
}
