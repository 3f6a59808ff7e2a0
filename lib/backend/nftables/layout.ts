/** Builds the fixed part of the table, on kube-proxy's hooks (KEP-3866): other programs rely on them. */
import { type Family, NFT_FAMILY } from "../../model/values/address.ts";
import type { DesiredNode, LocalDetector, NodePortAddresses } from "../../model/kernel/desired.ts";
import { type Chain, chain, type ChainRewrite, type Element, element } from "./table.ts";
import { type FrontendKind, tableSet } from "./sets.ts";

/** The last of our chains that a leaving packet meets. */
export const LAST_CHAIN = "nat-postrouting";

/** The priority of the chains that refuse. At 0, a firewall that starts later would drop their packets first. */
export const FILTER_PRIORITY = -1;

export function nodeElements(node: DesiredNode): Element[] {
  return node.ipFamilies.flatMap((family) => [
    ...node.families[family].guardedCIDRs.map((text) =>
      element(tableSet("serviceCIDRs", { family }), { type: "text", text })
    ),
    ...node.families[family].guardedServers.map((text) =>
      element(tableSet("apiServers", { family }), { type: "text", text })
    ),
  ]);
}

/** Returns the chains of every table, each after the chains that it jumps to. */
export function fixedChains(node: DesiredNode): Chain[] {
  const mark = `0x${node.masqueradeMark.toString(16)}`;
  return [
    common("mark-for-masquerade", [`meta mark set meta mark | ${mark}`]),
    common("reject-traffic", ["reject"]),
    ...node.ipFamilies.flatMap((family) => shortCircuitChains(node, family)),
    common(
      "services",
      node.ipFamilies.flatMap((family) => [
        vipRule("services", family),
        ...nodePortRules(node, { family, role: "services" }),
      ]),
    ),
    common("no-endpoints", node.ipFamilies.map((family) => vipRule("noEndpoints", family))),
    common(
      "no-endpoint-nodeports",
      node.ipFamilies.flatMap((family) => nodePortRules(node, { family, role: "noEndpoints" })),
    ),
    common(
      "cluster-ips",
      // An interface's address belongs to the node at once, even if a Service lists it too.
      ["ct status dnat return", "fib daddr type local return"]
        .concat(node.ipFamilies.map((family) => `${addressIn("apiServers", family)} return`))
        .concat(node.ipFamilies.map((family) => `${addressIn("clusterIPs", family)} reject`))
        .concat(node.ipFamilies.map((family) => `${addressIn("serviceCIDRs", family)} drop`)),
    ),
    ...NAT_CHAINS.map(({ before }) => before),
    base("filter-input", `filter hook input priority ${FILTER_PRIORITY}`, [
      ...LOCALHOST_GUARD,
      "ct state new jump no-endpoint-nodeports",
      "ct state new jump no-endpoints",
    ]),
    base("filter-forward", `filter hook forward priority ${FILTER_PRIORITY}`, CLUSTER_IP_GUARD),
    base("filter-output", `filter hook output priority ${FILTER_PRIORITY}`, CLUSTER_IP_GUARD),
    ...fastPathChains(node),
    base(LAST_CHAIN, "nat hook postrouting priority 100", [
      // Other programs have marks of several bits: WireGuard's 0xca6c contains 0x4000.
      `ct status dnat meta mark & ${mark} == ${mark} ` +
      `meta mark set meta mark ^ ${mark} masquerade fully-random`,
      ...node.ipFamilies.map((family) => {
        const [ip, { name }] = [NFT_FAMILY[family], tableSet("hairpins", { family })];
        return `ct status dnat ${ip} saddr . ${ip} daddr @${name} masquerade fully-random`;
      }),
    ]),
  ];
}

/** The chains that lead to endpoints. A daemon that stops moves them behind other proxies (priority -100). */
export const NAT_CHAINS: readonly ChainRewrite[] = ["prerouting", "output"].map((hook) => {
  const at = (priority: number) =>
    base(`nat-${hook}`, `nat hook ${hook} priority ${priority}`, ["jump services"]);
  return { before: at(-101), after: at(-99) };
});

/**
 * With `route_localnet`, neighbours could reach programs on 127.0.0.1 (CVE-2020-8558). Packets that another program
 * sends there by dnat may pass, as in iptables mode.
 */
export const LOCALHOST_DROP = 'iifname != "lo" ip daddr 127.0.0.0/8 ct state new drop';
const LOCALHOST_GUARD = [
  'iifname != "lo" ip daddr 127.0.0.0/8 ct state new ct status dnat accept',
  LOCALHOST_DROP,
];

const CLUSTER_IP_GUARD = ["ct state new jump no-endpoints", "ct state new jump cluster-ips"];

/** Returns the match of packets from pods of this node; `negated`: of all other packets. */
export function fromLocalPod(
  detector: LocalDetector,
  options: { readonly family: Family; readonly negated: boolean },
): string {
  const is = options.negated ? " !=" : "";
  switch (detector.type) {
    case "cidr":
      return `${NFT_FAMILY[options.family]} saddr${is} ${detector.cidr}`;
    case "interface":
      return `iifname${is} "${detector.name}"`;
    case "interfacePrefix":
      return `iifname${is} "${detector.prefix}*"`;
  }
}

export function shortCircuitChain(family: Family, kind: FrontendKind): string {
  return kind === "vip" ? `short-circuit${family}` : `short-circuit-nodeport${family}`;
}

/** Returns the chains by which pods and this node use all endpoints: the Local policy is for traffic from outside. */
function shortCircuitChains(node: DesiredNode, family: Family): Chain[] {
  const { localDetector } = node.families[family];
  const lookUps = {
    vip: vipRule("shortCircuits", family),
    nodeport: nodePortRule("shortCircuits", family),
  };
  return (["vip", "nodeport"] as const).map((kind) =>
    common(shortCircuitChain(family, kind), [
      ...(localDetector
        ? [`${fromLocalPod(localDetector, { family, negated: false })} ${lookUps[kind]}`]
        : []),
      "fib saddr type local jump mark-for-masquerade",
      `fib saddr type local ${lookUps[kind]}`,
    ])
  );
}

/** Addresses that rules of node ports leave out: the kernel does not route an answer from outside to loopback. */
export const LOOPBACK: Readonly<Record<Family, string>> = { 4: "127.0.0.0/8", 6: "::1" };

function nodePortRules(
  node: DesiredNode,
  options: { readonly family: Family; readonly role: VerdictMap },
): string[] {
  const { family, role } = options;
  const daddr = `${NFT_FAMILY[family]} daddr`;
  const within = matchOf(node.families[family].nodePortAddresses, daddr);
  const local = `${daddr} != ${LOOPBACK[family]} fib daddr type local`;
  return within === undefined ? [] : [`${within}${local} ${nodePortRule(role, family)}`];
}

/** Returns the match of addresses that accept node ports; `undefined` if the node has none. */
function matchOf(addresses: NodePortAddresses, daddr: string): string | undefined {
  if (addresses.type === "all") return "";
  return addresses.cidrs.length === 0 ? undefined : `${daddr} { ${addresses.cidrs.join(", ")} } `;
}

type VerdictMap = "services" | "shortCircuits" | "noEndpoints";

function vipRule(role: VerdictMap, family: Family): string {
  return `${vipOf(family)} vmap @${tableSet(role, { frontend: "vip", family }).name}`;
}

function nodePortRule(role: VerdictMap, family: Family): string {
  return `${NODE_PORT} vmap @${tableSet(role, { frontend: "nodeport", family }).name}`;
}

function addressIn(role: "clusterIPs" | "serviceCIDRs" | "apiServers", family: Family): string {
  return `${NFT_FAMILY[family]} daddr @${tableSet(role, { family }).name}`;
}

export const NODE_PORT = "meta l4proto . th dport";

export function vipOf(family: Family): string {
  return `${NFT_FAMILY[family]} daddr . meta l4proto . th dport`;
}

/**
 * Returns the chains that put long connections on the fast path, behind the filters of other programs (priority 60).
 * `ct packets` turns conntrack's counters on. nft knows the type of `proto-dst` only after a match of the protocol.
 */
function fastPathChains(node: DesiredNode): Chain[] {
  if (!node.acceleration) return [];
  const { packets, interfaces } = node.acceleration;
  const flowAdd = `flow add @${tableSet("fastPath", {}).name}`;
  const rules = node.ipFamilies.flatMap((family) => {
    const sets = tableSet("accelerated", { frontend: "vip", family });
    const nodePorts = tableSet("accelerated", { frontend: "nodeport", family });
    const original = `ct original ${NFT_FAMILY[family]} daddr`;
    const port = "meta l4proto . ct original proto-dst";
    const onNode = matchOf(node.families[family].nodePortAddresses, original);
    return ["tcp", "udp"].flatMap((protocol) => [
      `meta l4proto ${protocol} ${original} . ${port} @${sets.name} ${flowAdd}`,
      ...onNode === undefined
        ? []
        : [`meta l4proto ${protocol} ${onNode}${port} @${nodePorts.name} ${flowAdd}`],
    ]);
  });
  return [
    common("accelerate", rules),
    base("filter-forward-established", "filter hook forward priority 60", [
      `ct status dnat ct packets > ${packets} ${between(interfaces)}goto accelerate`,
    ]),
  ];
}

/** Returns a match of packets between these interfaces; `""` if a pattern is `*`. */
function between(patterns: readonly string[]): string {
  const covers = (wide: string, name: string) =>
    wide !== name && wide.endsWith("*") && name.startsWith(wide.slice(0, -1));
  const widest = [...new Set(patterns)].filter((name) =>
    !patterns.some((wide) => covers(wide, name))
  );
  if (widest.includes("*")) return "";
  const names = widest.map((each) => `"${each}"`).join(", ");
  const match = widest.length === 1 ? names : `{ ${names} }`;
  return `iifname ${match} oifname ${match} `;
}

function common(name: string, rules: readonly string[]): Chain {
  return chain(name, rules, { isCommon: true });
}

export function base(name: string, hook: string, rules: readonly string[]): Chain {
  return chain(name, rules, { hook, isCommon: true });
}
