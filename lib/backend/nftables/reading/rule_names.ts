/**
 * What the rules that decide about packets are called in nftables mode.
 *
 * @module
 */
import type { DesiredNode } from "../../../model/kernel/desired.ts";
import type { Family } from "../../../model/values/address.ts";
import type { Match } from "../../../policy/frontend.ts";
import type { RuleNames } from "../../backend.ts";
import { objectsOf, sourceRangeChain } from "../script/service.ts";
import { printKey } from "../script/keys.ts";
import type { Element } from "../script/objects.ts";
import { type SetRole, tableSet } from "../script/sets.ts";

/** Elements of maps and rules of chains that are there for all. */
export function nftablesNames(node: DesiredNode): RuleNames {
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
    rejectsLocalhost: (match) => find(match, "localhostRejects"),
    firewall: ({ servicePort }) =>
      `chain ${sourceRangeChain(servicePort)}: source not in @${
        tableSet("sourceRanges", servicePort).name
      }: drop`,
    undefinedPort: (family) => `${inSet("clusterIPs")(family)}: reject`,
    unallocatedAddress: (family) => `${inSet("serviceCIDRs")(family)}: drop`,
  };
}
