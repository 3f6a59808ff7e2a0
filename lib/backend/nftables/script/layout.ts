/**
 * The fixed part of the table: its sets and maps, and the chains that every packet meets.
 *
 * Hooks and priorities of the base chains are kube-proxy's (KEP-3866), so that other programs on the
 * node that order themselves around them keep working. The names are signpost's own.
 *
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import type {
  DesiredNode,
  LocalDetector,
  NodePortAddresses,
} from "../../../model/kernel/desired.ts";
import { type Chain, type Element, type NamedSet, NFT_FAMILY } from "./objects.ts";

/** How a packet from outside finds a service port: by virtual IP or by node port. */
export type FrontendKind = "vip" | "nodeport";

/**
 * The set that holds the mark of each of our transactions, for milliseconds: `nft monitor` tells of
 * it, and so of whose transaction that is.
 */
export const TRANSACTIONS = "transactions";

/** The sets and maps of every table, in the order of their printing. */
export function fixedSets({ ipFamilies }: DesiredNode): NamedSet[] {
  const marks = "typeof meta mark; flags timeout; gc-interval 10s";
  return [
    namedSet("set", TRANSACTIONS, marks),
    ...ipFamilies.flatMap((family) => {
      const ip = NFT_FAMILY[family];
      const vip = vipType(family);
      const nodePort = "meta l4proto . tcp dport";
      return [
        namedSet("map", `services${family}`, `typeof ${vip} : verdict`),
        namedSet("map", `short-circuits${family}`, `typeof ${vip} : verdict`),
        namedSet("map", `no-endpoints${family}`, `typeof ${vip} : verdict`),
        namedSet("map", `nodeports${family}`, `typeof ${nodePort} : verdict`),
        namedSet("map", `nodeport-short-circuits${family}`, `typeof ${nodePort} : verdict`),
        namedSet("map", `no-endpoint-nodeports${family}`, `typeof ${nodePort} : verdict`),
        namedSet("set", `cluster-ips${family}`, `typeof ${ip} daddr`),
        namedSet("set", `service-cidrs${family}`, `typeof ${ip} daddr; flags interval`),
        namedSet("set", `hairpins${family}`, `typeof ${ip} saddr . ${ip} daddr`),
      ];
    }),
  ];
}

/** A set or map with the body of its declaration. */
export function namedSet(kind: NamedSet["kind"], name: string, body: string): NamedSet {
  return { type: "set", kind, name, body };
}

/** The elements that the node itself brings: the ranges of cluster IPs. */
export function nodeElements(node: DesiredNode): Element[] {
  return node.ipFamilies.flatMap((family) =>
    node.families[family].serviceCIDRs.map((cidr) => ({
      type: "element" as const,
      set: `service-cidrs${family}`,
      key: cidr,
      data: "",
      comment: "",
    }))
  );
}

/** The chains that are there whatever the services are, in an order in which each knows those it jumps to. */
export function fixedChains(node: DesiredNode): Chain[] {
  const mark = `0x${node.masqueradeMark.toString(16)}`;
  return [
    chain("mark-for-masquerade", [`meta mark set meta mark | ${mark}`]),
    chain("reject-traffic", ["reject"]),
    ...node.ipFamilies.flatMap((family) => shortCircuitChains(node, family)),
    chain("services", node.ipFamilies.flatMap((family) => serviceRules(node, family))),
    chain("no-endpoints", eachFamily(node, (vip, family) => `${vip} vmap @no-endpoints${family}`)),
    chain(
      "no-endpoint-nodeports",
      node.ipFamilies.flatMap((family) =>
        nodePortRules(node, { family, map: "no-endpoint-nodeports" })
      ),
    ),
    chain(
      "cluster-ips",
      eachFamily(node, (_, family, ip) => `${ip} daddr @cluster-ips${family} reject`)
        .concat(eachFamily(node, (_, family, ip) => `${ip} daddr @service-cidrs${family} drop`)),
    ),
    base("nat-prerouting", "nat hook prerouting priority -100", ["jump services"]),
    base("nat-output", "nat hook output priority -100", ["jump services"]),
    base("filter-input", "filter hook input priority 0", [
      ...LOCALHOST_GUARD,
      "ct state new jump no-endpoint-nodeports",
      "ct state new jump no-endpoints",
    ]),
    base("filter-forward", "filter hook forward priority 0", CLUSTER_IP_GUARD),
    base("filter-output", "filter hook output priority 0", CLUSTER_IP_GUARD),
    base("nat-postrouting", "nat hook postrouting priority 100", [
      `meta mark & ${mark} == ${mark} meta mark set meta mark ^ ${mark} masquerade fully-random`,
      ...eachFamily(
        node,
        (_, family, ip) =>
          `ct status dnat ${ip} saddr . ${ip} daddr @hairpins${family} masquerade fully-random`,
      ),
    ]),
  ];
}

/**
 * Where `route_localnet` is set, neighbours could reach what listens on 127.0.0.1 only
 * (CVE-2020-8558). What another program sends there by dnat may pass, as in iptables mode.
 */
const LOCALHOST_GUARD = [
  'iifname != "lo" ip daddr 127.0.0.0/8 ct state new ct status dnat accept',
  'iifname != "lo" ip daddr 127.0.0.0/8 ct state new drop',
];

const CLUSTER_IP_GUARD = ["ct state new jump no-endpoints", "ct state new jump cluster-ips"];

/** The packet match for a source that is a pod of this node, or (`negated`) is not. */
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

/** Name of the chain that sends pods and this node to the cluster's endpoints of an external address. */
export function shortCircuitChain(family: Family, kind: FrontendKind): string {
  return kind === "vip" ? `short-circuit${family}` : `short-circuit-nodeport${family}`;
}

/** External traffic policy Local is for traffic from outside: pods and the node itself use all endpoints. */
function shortCircuitChains(node: DesiredNode, family: Family): Chain[] {
  const { localDetector } = node.families[family];
  const lookUps = {
    vip: `${vipOf(family)} vmap @short-circuits${family}`,
    nodeport: `${NODE_PORT} vmap @nodeport-short-circuits${family}`,
  };
  return (["vip", "nodeport"] as const).map((kind) =>
    chain(shortCircuitChain(family, kind), [
      ...(localDetector
        ? [`${fromLocalPod(localDetector, { family, negated: false })} ${lookUps[kind]}`]
        : []),
      "fib saddr type local jump mark-for-masquerade",
      `fib saddr type local ${lookUps[kind]}`,
    ])
  );
}

function serviceRules(node: DesiredNode, family: Family): string[] {
  return [
    `${vipOf(family)} vmap @services${family}`,
    ...nodePortRules(node, { family, map: "nodeports" }),
  ];
}

/** Never on localhost: the kernel would not route an answer from outside to it. */
const LOOPBACK: Readonly<Record<Family, string>> = { 4: "127.0.0.0/8", 6: "::1" };

function nodePortRules(
  node: DesiredNode,
  options: { readonly family: Family; readonly map: string },
): string[] {
  const { family, map } = options;
  const match = nodeAddressMatch(node.families[family].nodePortAddresses, family);
  const lookUp = `${NODE_PORT} vmap @${map}${family}`;
  return match === undefined ? [] : [`${match} ${lookUp}`];
}

function nodeAddressMatch(addresses: NodePortAddresses, family: Family): string | undefined {
  const daddr = `${NFT_FAMILY[family]} daddr`;
  const local = `${daddr} != ${LOOPBACK[family]} fib daddr type local`;
  if (addresses.type === "all") return local;
  return addresses.cidrs.length === 0
    ? undefined
    : `${daddr} { ${addresses.cidrs.join(", ")} } ${local}`;
}

/** One rule for each family; `vip` is the match that reads a virtual IP's key from the packet. */
function eachFamily(
  { ipFamilies }: DesiredNode,
  rule: (vip: string, family: Family, ip: "ip" | "ip6") => string,
): string[] {
  return ipFamilies.map((family) => rule(vipOf(family), family, NFT_FAMILY[family]));
}

/** The expression that reads a node port's key from a packet. */
export const NODE_PORT = "meta l4proto . th dport";

/** The expression that reads a virtual IP's key from a packet. */
export function vipOf(family: Family): string {
  return `${NFT_FAMILY[family]} daddr . meta l4proto . th dport`;
}

/**
 * The key of a virtual IP as a type, for declarations. `tcp dport` stands for the port of any
 * protocol: `th dport` in `typeof` does not survive a re-read by nft 1.0.6.
 */
export function vipType(family: Family): string {
  return `${NFT_FAMILY[family]} daddr . meta l4proto . tcp dport`;
}

function chain(name: string, rules: readonly string[]): Chain {
  return { type: "chain", name, rules };
}

/** A chain that the kernel calls. */
export function base(name: string, hook: string, rules: readonly string[]): Chain {
  return { type: "chain", name, hook, rules };
}
