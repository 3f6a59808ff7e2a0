/** The rules of kube-proxy's nftables mode. */
import { serviceChainNames } from "../../lib/backend/iptables/script/names.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import type { ProxiedFamily, ProxiedPort } from "./kube_proxy.ts";

const MARK = "0x4000";

/** The two tables of kube-proxy's nftables mode, where there are none, for `nft -f -`. */
export function kubeProxyNftables(families: readonly ProxiedFamily[]): string {
  return families.map((state) => {
    const ip = state.family === 4 ? "ip" : "ip6";
    return `table ${ip} kube-proxy {\n  comment "rules for kube-proxy"\n${
      [
        ...nftablesSets(state),
        ...state.ports.flatMap((port) => nftablesServiceChains(port, state)),
        ...nftablesBaseChains(ip),
      ].join("\n")
    }\n}\n`;
  }).join("");
}

function nftablesSets({ family, nodeIP, ports }: ProxiedFamily): string[] {
  const addr = family === 4 ? "ipv4_addr" : "ipv6_addr";
  const set = (kind: string, name: string, type: string, elements: readonly string[]) =>
    `  ${kind} ${name} {\n    type ${type}\n` +
    (elements.length === 0 ? "  }" : `    elements = { ${elements.join(", ")} }\n  }`);
  const vip = `${addr} . inet_proto . inet_service : verdict`;
  const nodePort = "inet_proto . inet_service : verdict";
  const clusterIPs = new Set(ports.map(({ clusterIP }) => clusterIP));
  return [
    set("set", "cluster-ips", addr, [...clusterIPs]),
    set("set", "nodeport-ips", addr, [nodeIP]),
    set("map", "no-endpoint-services", vip, []),
    set("map", "no-endpoint-nodeports", nodePort, []),
    set("map", "firewall-ips", vip, []),
    set(
      "map",
      "service-ips",
      vip,
      ports.flatMap((each) => [
        `${each.clusterIP} . ${each.protocol} . ${each.port} : goto ${nftablesChain(each)}`,
        `${each.loadBalancerIP} . ${each.protocol} . ${each.port} : goto ${
          nftablesChain(each, "external")
        }`,
      ]),
    ),
    set(
      "map",
      "service-nodeports",
      nodePort,
      ports.map((each) =>
        `${each.protocol} . ${each.nodePort} : goto ${nftablesChain(each, "external")}`
      ),
    ),
  ];
}

/** For example `service-NVLXCNGB-shop/web/tcp/http`. */
function nftablesChain(port: ProxiedPort, kind = "service"): string {
  const hash = serviceChainNames(port.name, port.protocol).Cluster.slice(-8);
  const [path = "", name = ""] = port.name.split(":");
  return `${kind}-${hash}-${path}/${port.protocol}/${name}`;
}

function nftablesServiceChains(port: ProxiedPort, state: ProxiedFamily): string[] {
  const { family, clusterCIDR } = state;
  const ip = family === 4 ? "ip" : "ip6";
  const { protocol, endpoints, clusterIP } = port;
  const chain = (name: string, rules: readonly string[]) =>
    `  chain ${name} {\n${rules.map((rule) => `    ${rule}\n`).join("")}  }`;
  const endpointChain = (at: { readonly address: string; readonly port: number }) =>
    `${nftablesChain(port, "endpoint")}__${at.address.replaceAll(":", ".")}/${at.port}`;
  const picks = endpoints.map((endpoint, i) => `${i} : goto ${endpointChain(endpoint)}`);
  return [
    ...endpoints.map((endpoint) =>
      chain(endpointChain(endpoint), [
        `${ip} saddr ${endpoint.address} jump mark-for-masquerade`,
        `meta l4proto ${protocol} dnat to ${hostPort(endpoint.address, endpoint.port)}`,
      ])
    ),
    chain(nftablesChain(port), [
      `${ip} daddr ${clusterIP} ${protocol} dport ${port.port} ` +
      `${ip} saddr != ${clusterCIDR} jump mark-for-masquerade`,
      `numgen random mod ${endpoints.length} vmap { ${picks.join(", ")} }`,
    ]),
    chain(nftablesChain(port, "external"), [
      "jump mark-for-masquerade",
      `goto ${nftablesChain(port)}`,
    ]),
  ];
}

/** The chains that every packet meets, and those that they jump to. */
function nftablesBaseChains(ip: "ip" | "ip6"): string[] {
  const vip = `${ip} daddr . meta l4proto . th dport`;
  const chains: Readonly<Record<string, readonly string[]>> = {
    "mark-for-masquerade": [`meta mark set meta mark | ${MARK}`],
    "masquerading": [
      `meta mark & ${MARK} == 0 return`,
      `meta mark set meta mark ^ ${MARK}`,
      "masquerade fully-random",
    ],
    "services": [
      `${vip} vmap @service-ips`,
      `${ip} daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports`,
    ],
    "firewall-check": [`${vip} vmap @firewall-ips`],
    "service-endpoints-check": [`${vip} vmap @no-endpoint-services`],
    "nodeport-endpoints-check": [
      `${ip} daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports`,
    ],
    "cluster-ips-check": [`${ip} daddr @cluster-ips reject`],
    "filter-prerouting": [hook("filter", "prerouting", -110), "ct state new jump firewall-check"],
    "filter-input": [
      hook("filter", "input", 0),
      "ct state new jump nodeport-endpoints-check",
      "ct state new jump service-endpoints-check",
    ],
    "filter-forward": [
      hook("filter", "forward", 0),
      "ct state new jump service-endpoints-check",
      "ct state new jump cluster-ips-check",
    ],
    "filter-output-pre-dnat": [hook("filter", "output", -110), "ct state new jump firewall-check"],
    "filter-output": [
      hook("filter", "output", 0),
      "ct state new jump service-endpoints-check",
      "ct state new jump cluster-ips-check",
    ],
    "nat-prerouting": [hook("nat", "prerouting", -100), "jump services"],
    "nat-output": [hook("nat", "output", -100), "jump services"],
    "nat-postrouting": [hook("nat", "postrouting", 100), "jump masquerading"],
  };
  return Object.entries(chains).map(([name, lines]) =>
    `  chain ${name} {\n${lines.map((line) => `    ${line}\n`).join("")}  }`
  );
}

function hook(type: string, name: string, priority: number): string {
  return `type ${type} hook ${name} priority ${priority};`;
}
