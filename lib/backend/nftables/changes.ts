/** Shows steps of the desired state as changes, and names the rules that decide about packets. */
import type { DesiredNode, DesiredServicePort, DesiredState } from "../../model/kernel/desired.ts";
import { diffing, tableOf } from "./delta.ts";
import { type Element, elementId, elementsOf, type References } from "./table.ts";
import { frontendOfKey, printKey, type SetRole, tableSet } from "./sets.ts";
import { LOCALHOST_DROP } from "./layout.ts";
import { objectsOf, sourceRangeChain } from "./service.ts";
import type { Change } from "../../model/kernel/differences.ts";
import type { DesiredStep, RuleNames } from "../backend.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import type { Family } from "../../model/values/address.ts";
import type { Match } from "../../policy/frontend.ts";

/** Returns a function that gives the changes of each step, deletions first. */
export function changesFrom(state: DesiredState): (step: DesiredStep) => Change[] {
  const { references } = atOnce(tableOf(state));
  return (step) => nftablesChanges(step, references);
}

function nftablesChanges({ change, node }: DesiredStep, references: References): Change[] {
  const changed = [...change.services.values()];
  const ownerOf = ownersOf(changed.flatMap(({ before, after }) => [...before, ...after]), node);
  const delta = atOnce(diffing(changed, { node, nodeChange: change.node, references }));
  const elementChange = (change: Change["change"]) => (each: Element) => ({
    change,
    type: "element" as const,
    in: each.set.name,
    key: printKey(each.key),
    data: each.data,
    service: each.comment || ownerOf(each),
  });
  const rules = (change: Change["change"], name: string, lines: readonly string[]) =>
    lines.map((key) => ({ change, type: "rule" as const, in: name, key, data: "", service: "" }));
  return [
    ...[...elementsOf(delta.deleteElements)].map(elementChange("delete")),
    ...delta.deleteChains.map(partChange("delete", "chain")),
    ...delta.deleteSets.map(partChange("delete", "set")),
    ...delta.rewriteChains.flatMap(({ before, after }) => [
      ...rules("delete", before.name, before.rules.filter((each) => !after.rules.includes(each))),
      ...rules("add", after.name, after.rules.filter((each) => !before.rules.includes(each))),
    ]),
    ...delta.addSets.map(partChange("add", "set")),
    ...delta.addChains.flatMap((chain) => [
      partChange("add", "chain")(chain),
      ...rules("add", chain.name, chain.rules),
    ]),
    ...[...elementsOf(delta.addElements)].map(elementChange("add")),
  ];
}

function partChange(
  change: Change["change"],
  type: "chain" | "set",
): (part: { readonly name: string }) => Change {
  return ({ name }) => ({ change, type, in: name, key: "", data: "", service: "" });
}

/** Returns a function that gives the service port of an element; `""` for several or none. */
export function ownersOf(
  ports: readonly DesiredServicePort[],
  node: DesiredNode,
): (element: Pick<Element, "set" | "key">) => string {
  const owners = new Map<string, string>();
  for (const port of ports) {
    for (const object of objectsOf(port, node)) {
      if (object.type === "chain" || object.type === "set") continue;
      const id = ownedId(object);
      owners.set(id, owners.has(id) && owners.get(id) !== port.name ? "" : port.name);
    }
  }
  return (element) => owners.get(ownedId(element)) ?? "";
}

/** Returns the id of an element. All elements of a frontend have the same. */
function ownedId({ set, key }: Pick<Element, "set" | "key">): string {
  const frontend = frontendOfKey(key);
  return frontend
    ? `${set.family} ${printKey(frontend)}`
    : elementId({ type: "element", set, key });
}

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
    guardsLocalhost: () => `chain filter-input: ${LOCALHOST_DROP}`,
    undefinedPort: (family) => `${inSet("clusterIPs")(family)}: reject`,
    unallocatedAddress: (family) => `${inSet("serviceCIDRs")(family)}: drop`,
  };
}
