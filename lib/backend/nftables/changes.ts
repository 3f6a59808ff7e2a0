/** Shows steps of the desired state as changes, and names the rules that decide about packets. */
import type { DesiredNode, DesiredState, StateChange } from "../../model/kernel/desired.ts";
import { diffing, tableOf, withNodeElements } from "./delta.ts";
import {
  type Element,
  elementId,
  elementsOf,
  type ObjectId,
  objectId,
  type References,
} from "./table.ts";
import { printKey } from "./keys.ts";
import { objectsOf, sourceRangeChain } from "./service.ts";
import type { Change } from "../../model/kernel/differences.ts";
import type { DesiredStep, RuleNames } from "../backend.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import type { Family } from "../../model/values/address.ts";
import type { Match } from "../../policy/frontend.ts";
import { type SetRole, tableSet } from "./sets.ts";

/** Returns a function that gives the changes of each step, deletions first. */
export function changesFrom(state: DesiredState): (step: DesiredStep) => Change[] {
  const { references } = atOnce(tableOf(state));
  return (step) => nftablesChanges(step, references);
}

function nftablesChanges({ change, node }: DesiredStep, references: References): Change[] {
  const owners = ownersOf(change, node);
  const of = (object: Parameters<typeof objectId>[0]) => owners.get(objectId(object)) ?? "";
  const services = atOnce(diffing(change.services.values(), { node, references }));
  const delta = withNodeElements(services, change);
  const element = (change: Change["change"]) => (each: Element) => ({
    change,
    type: "element" as const,
    in: each.set.name,
    key: printKey(each.key),
    data: each.data,
    service: each.comment || of(each) || ownerOfSlot(owners, each),
  });
  const rules = (change: Change["change"], name: string, lines: readonly string[]) =>
    lines.map((key) => ({ change, type: "rule" as const, in: name, key, data: "", service: "" }));
  return [
    ...delta.deleteElements.map(element("delete")),
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
    ...[...elementsOf(delta.addElements)].map(element("add")),
  ];
}

function partChange(
  change: Change["change"],
  type: "chain" | "set",
): (part: { readonly name: string }) => Change {
  return ({ name }) => ({ change, type, in: name, key: "", data: "", service: "" });
}

/** Returns the service port that needs each object; `""` for several. */
function ownersOf({ services }: StateChange, node: DesiredNode): ReadonlyMap<ObjectId, string> {
  const owners = new Map<ObjectId, string>();
  for (const { before, after } of services.values()) {
    for (const port of [...before, ...after]) {
      for (const object of objectsOf(port, node)) {
        const id = objectId(object);
        owners.set(id, owners.has(id) && owners.get(id) !== port.name ? "" : port.name);
      }
    }
  }
  return owners;
}

function ownerOfSlot(
  owners: ReadonlyMap<ObjectId, string>,
  { set, key }: Pick<Element, "set" | "key">,
): string {
  if (key.type !== "slot") return "";
  return owners.get(elementId({ type: "slots", set, key: key.frontend })) ?? "";
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
    undefinedPort: (family) => `${inSet("clusterIPs")(family)}: reject`,
    unallocatedAddress: (family) => `${inSet("serviceCIDRs")(family)}: drop`,
  };
}
