/**
 * What the rules that decide about packets are called, in the words of each mode.
 *
 * @module
 */
import { serviceRules } from "../../backend/iptables/script/service_rules.ts";
import { ADDRESS_BITS, type Family } from "../../model/values/address.ts";
import type { DesiredNode } from "../../model/kernel/desired.ts";
import { sourceRangeChain } from "../../backend/nftables/script/firewall.ts";
import { printKey } from "../../backend/nftables/script/keys.ts";
import type { Element } from "../../backend/nftables/script/objects.ts";
import { objectsOf } from "../../backend/nftables/script/service.ts";
import type { SetRole } from "../../backend/nftables/script/set_rows.ts";
import { tableSet } from "../../backend/nftables/script/sets.ts";
import type { Match } from "../frontend.ts";

/** Names the rule or element behind each kind of verdict. */
export interface RuleNames {
  /** Leads to the endpoints. */
  delivers(match: Match): string;
  /** Leads pods and this node to the cluster's endpoints, under the Local policy. */
  shortCircuit(match: Match): string;
  /** Rejects or drops, for want of endpoints. */
  refuses(match: Match): string;
  /** Drops sources outside of the source ranges. */
  firewall(match: Match): string;
  /** Rejects ports that a cluster IP does not have. */
  undefinedPort(family: Family): string;
  /** Drops addresses of the cluster IPs' range that no Service has. */
  unallocatedAddress(family: Family): string;
}

/** The names in a mode. */
export function ruleNames(mode: "nftables" | "iptables", node: DesiredNode): RuleNames {
  return mode === "nftables" ? nftablesNames(node) : iptablesNames(node);
}

function nftablesNames(node: DesiredNode): RuleNames {
  const find = ({ servicePort, frontend }: Match, role: SetRole) => {
    const element = objectsOf(servicePort, node).find((object): object is Element =>
      object.type === "element" && object.set.role === role && object.key.type === "frontend" &&
      object.key.address === frontend.address && object.key.port === frontend.port
    );
    return element ? `map ${element.set.name} { ${printKey(element.key)} : ${element.data} }` : "";
  };
  const inSet = (role: "clusterIPs" | "serviceCIDRs") => (family: Family) =>
    `chain cluster-ips: in @${tableSet(role, { family }).name}`;
  return {
    delivers: (match) => find(match, "services"),
    shortCircuit: (match) => find(match, "shortCircuits"),
    refuses: (match) => find(match, "noEndpoints"),
    firewall: ({ servicePort }) =>
      `chain ${sourceRangeChain(servicePort)}: source not in @${
        tableSet("sourceRanges", servicePort).name
      }: drop`,
    undefinedPort: (family) => `${inSet("clusterIPs")(family)}: reject`,
    unallocatedAddress: (family) => `${inSet("serviceCIDRs")(family)}: drop`,
  };
}

function iptablesNames(node: DesiredNode): RuleNames {
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
    undefinedPort: () => "",
    unallocatedAddress: () => "",
  };
}
