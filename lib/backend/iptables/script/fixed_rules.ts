/** Builds the rules that do not depend on Services, as in kube-proxy's iptables mode. */
import {
  cidrContains,
  cidrsOverlap,
  type Family,
  isEveryAddress,
} from "../../../model/values/address.ts";
import type { DesiredNode } from "../../../model/kernel/desired.ts";
import { answersOnLoopback } from "../../../policy/node.ts";
import { CANARY_CHAIN, HAIRPIN_CHAIN, OWNER, type Table } from "./names.ts";
import { comment, markAndMask, rule } from "./rule.ts";

export interface InputOptions {
  readonly family: Family;
  /** True if `nf_conntrack_tcp_be_liberal` is set on the node. Then invalid packets are not dropped. */
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
    "KUBE-EXTERNAL-SERVICES": [],
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
    "KUBE-NODEPORTS": localhostGuard(family),
    "KUBE-PROXY-FIREWALL": [],
    "KUBE-SERVICES": [],
  };
}

/** Refuses neighbours, which `route_localnet` lets reach 127.0.0.1 (kubernetes/kubernetes#90259). kubelet does too. */
export function localhostGuard(family: Family): string[] {
  return family === 6 ? [] : [
    rule(
      `! -s ${LOOPBACK[family]} -d ${LOOPBACK[family]}`,
      comment("block incoming localnet connections"),
      "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
    ),
  ];
}

function natChains(node: DesiredNode, family: Family): Chains {
  const mark = markAndMask(node.masqueradeMark);
  const bit = mark.slice(0, mark.indexOf("/"));
  return {
    [CANARY_CHAIN]: [],
    "KUBE-MARK-MASQ": [rule(comment(OWNER), `-j MARK --set-xmark ${mark}`)],
    "KUBE-NODEPORTS": [],
    "KUBE-POSTROUTING": [
      // Other programs have marks of several bits: WireGuard's 0xca6c contains 0x4000.
      "-m conntrack ! --ctstate DNAT -j RETURN",
      rule(comment("kubernetes hairpin connections"), `-j ${HAIRPIN_CHAIN}`),
      `-m mark ! --mark ${mark} -j RETURN`,
      // Without a target: it counts for kubeproxy_iptables_localhost_nodeports_accepted_packets_total.
      ...answersOnLoopback(node, family)
        ? [rule(
          comment("packets accepted on localhost node ports"),
          `-m conntrack --ctorigdst ${LOOPBACK[family]}`,
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

/** Returns the rules for addresses that do not belong to a Service. */
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
