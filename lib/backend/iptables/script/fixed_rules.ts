/** Builds the rules that do not depend on Services, as in kube-proxy's iptables mode. */
import {
  cidrContains,
  cidrsOverlap,
  type Family,
  isEveryAddress,
} from "../../../model/values/address.ts";
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import { answersOnLoopback } from "../../../policy/node.ts";
import { CANARY_CHAIN, HAIRPIN_CHAIN, OWNER, type Table, VIRTUAL_IP_CHAIN } from "./names.ts";
import { comment, host, markAndMask, port, reject, rule, type SharedRule } from "./rule.ts";

export interface InputOptions {
  readonly family: Family;
  /** True if `nf_conntrack_tcp_be_liberal` is set by anyone. Then no invalid packet is dropped. */
  readonly tcpBeLiberal: boolean;
}

/** The rules of each chain of a table. */
type Chains = Readonly<Record<string, readonly string[]>>;

const LOOPBACK: Readonly<Record<Family, string>> = { 4: "127.0.0.0/8", 6: "::1/128" };

export function fixedChains(
  table: Table,
  node: DesiredNode,
  options: InputOptions,
): Chains {
  return table === "filter" ? filterChains(node, options) : natChains(node, options.family);
}

function filterChains(node: DesiredNode, { family, tcpBeLiberal }: InputOptions): Chains {
  const mark = markAndMask(node.masqueradeMark);
  return {
    [CANARY_CHAIN]: [],
    // One rule for all virtual IPs, because every new packet meets this chain.
    "KUBE-EXTERNAL-SERVICES": [
      `${comment("kubernetes virtual IPs")} -m addrtype --dst-type LOCAL -j ${VIRTUAL_IP_CHAIN}`,
    ],
    "KUBE-FORWARD": [
      // A packet unknown to conntrack would leave with a wrong source, and the peer would reset the
      // connection (kubernetes/kubernetes#74839).
      ...(node.tcpBeLiberal || tcpBeLiberal ? [] : ["-m conntrack --ctstate INVALID -j DROP"]),
      `${comment("kubernetes forwarding rules")} -m mark --mark ${mark} -j ACCEPT`,
      rule(
        comment("kubernetes forwarding conntrack rule"),
        "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
      ),
    ],
    // With `route_localnet`, neighbours could reach listeners on 127.0.0.1
    // (kubernetes/kubernetes#90259). kubelet has the same rule in its own chain.
    "KUBE-NODEPORTS": family === 4
      ? [
        rule(
          `! -s ${LOOPBACK[family]} -d ${LOOPBACK[family]}`,
          comment("block incoming localnet connections"),
          "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
        ),
      ]
      : [],
    "KUBE-PROXY-FIREWALL": [],
    "KUBE-SERVICES": [],
    // Skips translated packets, and packets to the health server or the address of their own interface.
    [VIRTUAL_IP_CHAIN]: [
      "-m conntrack --ctstate DNAT -j RETURN",
      `-d ${LOOPBACK[family]} -j RETURN`,
      ...node.healthzPort === 0 ? [] : [`-p tcp ${port("tcp", node.healthzPort)} -j RETURN`],
      "! -i lo -m addrtype --dst-type LOCAL --limit-iface-in -j RETURN",
    ],
  };
}

function natChains(node: DesiredNode, family: Family): Chains {
  const mark = markAndMask(node.masqueradeMark);
  const bit = mark.slice(0, mark.indexOf("/"));
  return {
    [CANARY_CHAIN]: [],
    "KUBE-MARK-MASQ": [rule(comment(OWNER), `-j MARK --set-xmark ${mark}`)],
    "KUBE-NODEPORTS": [],
    "KUBE-POSTROUTING": [
      rule(
        comment("kubernetes hairpin connections"),
        `-m conntrack --ctstate DNAT -j ${HAIRPIN_CHAIN}`,
      ),
      `-m mark ! --mark ${mark} -j RETURN`,
      // Has no target: it counts for kubeproxy_iptables_localhost_nodeports_accepted_packets_total.
      ...answersOnLoopback(node, family)
        ? [rule(
          comment("packets accepted on localhost node ports"),
          `-m conntrack --ctstate DNAT --ctorigdst ${LOOPBACK[family]}`,
        )]
        : [],
      // Clears the mark, else a packet that passes again (in a tunnel) would be masqueraded twice.
      `-j MARK --set-xmark ${bit}/0x0`,
      rule(
        comment("kubernetes service traffic requiring SNAT"),
        "-j MASQUERADE --random-fully",
      ),
    ],
    [HAIRPIN_CHAIN]: [],
    "KUBE-SERVICES": nodePortJumps(node, family),
  };
}

/** Returns the rules for addresses that are no Service's. */
function nodePortJumps(node: DesiredNode, family: Family): string[] {
  const { nodePortAddresses } = node.families[family];
  const loopback = LOOPBACK[family];
  const note = comment(
    "kubernetes service nodeports; NOTE: this must be the last rule in this chain",
  );
  const end = `${note} -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`;
  const noLoopback = answersOnLoopback(node, family) ? "" : `! -d ${loopback}`;
  if (nodePortAddresses.type === "all") return [rule(noLoopback, end)];
  const ranges = nodePortAddresses.cidrs.filter((cidr) =>
    noLoopback === "" || !cidrContains(loopback, cidr)
  );
  const guard = noLoopback !== "" && ranges.some((range) => cidrsOverlap(range, loopback));
  return [
    ...(guard ? [`-d ${loopback} ${comment("no node ports on localhost")} -j RETURN`] : []),
    ...ranges.map((range) => rule(isEveryAddress(range) ? "" : `-d ${range}`, end)),
  ];
}

/** Returns the guards of a Service's external and load-balancer IPs, each address once. */
export function serviceGuards(ports: readonly DesiredServicePort[]): SharedRule[] {
  const guards = ports.flatMap(({ family, name, externalIPs, loadBalancerIPs }) =>
    [...externalIPs, ...loadBalancerIPs].map((address) => {
      const note = `${name.split(":")[0]} has no such port`;
      return [address, refuse(host(family, address), { note, family })] as const;
    })
  );
  return [...new Map(guards).values()];
}

/** Returns the guards of cluster IP ranges. Rules before them keep the node's own addresses reachable. */
export function nodeGuards({ families }: DesiredNode, family: Family): SharedRule[] {
  const { guardedCIDRs, ownAddresses } = families[family];
  const note = "kubernetes cluster IPs have no such port";
  const own = ownAddresses.map((address): SharedRule => ({
    table: "filter",
    chain: VIRTUAL_IP_CHAIN,
    rule: `-d ${host(family, address)} -j RETURN`,
    place: "first",
  }));
  return [...own, ...guardedCIDRs.map((cidr) => refuse(cidr, { note, family }))];
}

function refuse(
  destination: string,
  { note, family }: { readonly note: string; readonly family: Family },
): SharedRule {
  return {
    table: "filter",
    chain: VIRTUAL_IP_CHAIN,
    rule: rule(`-d ${destination}`, comment(note), reject(family)),
    place: "last",
  };
}
