/**
 * Names the iptables rules that decide about packets.
 * @module
 */
import { ADDRESS_BITS } from "../../../model/values/address.ts";
import type { DesiredNode } from "../../../model/kernel/desired.ts";
import type { Match } from "../../../policy/frontend.ts";
import type { RuleNames } from "../../backend.ts";
import { serviceRules } from "../script/service_rules.ts";

/** Returns the rules in shared chains. */
export function iptablesNames(node: DesiredNode): RuleNames {
  const find = (match: Match, isWanted: (table: string, chain: string) => boolean) => {
    const { servicePort, frontend } = match;
    const target = frontend.address === undefined
      ? `--dport ${frontend.port}`
      : `-d ${frontend.address}/${ADDRESS_BITS[servicePort.family]}`;
    const rule = serviceRules(servicePort, node).shared.find((each) =>
      isWanted(each.table, each.chain) && ` ${each.rule} `.includes(` ${target} `)
    );
    return rule ? `${rule.table} ${rule.chain}: ${rule.rule}` : "";
  };
  const delivers = (match: Match) => find(match, (table) => table === "nat");
  return {
    delivers,
    shortCircuit: delivers,
    refuses: (match) =>
      find(match, (table, chain) => table === "filter" && chain !== "KUBE-PROXY-FIREWALL"),
    firewall: (match) => find(match, (_, chain) => chain === "KUBE-PROXY-FIREWALL"),
    rejectsLocalhost: () => "",
    undefinedPort: () => "",
    unallocatedAddress: () => "",
  };
}
