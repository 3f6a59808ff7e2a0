/**
 * Operations as text for `nft -f -`.
 *
 * @module
 */
import type { DesiredNode } from "../model/desired.ts";
import type { Operations } from "./diff.ts";
import { fixedChains, fixedSets, nodeElements } from "./layout.ts";
import { type Chain, type Element, TABLE } from "./objects.ts";

/**
 * The whole table, replacing what is there: `add` before `delete`, so that the delete finds a
 * table on a fresh kernel too. All in one transaction.
 *
 * @param operations the way from nothing to all services
 */
export function renderTable(operations: Operations, node: DesiredNode): string {
  const elements = groupBySet([...nodeElements(node), ...operations.addElements]);
  const sets = [...fixedSets(), ...operations.addSets].map(({ kind, name, body }) =>
    `  ${kind} ${name} {\n    ${body}\n${renderSetElements(elements.get(name) ?? [])}  }\n`
  );
  const chains = [...operations.addChains, ...fixedChains(node)].map((chain) => {
    const lines = "hook" in chain ? [`type ${chain.hook};`, ...chain.rules] : chain.rules;
    return `  chain ${chain.name} {\n${lines.map((line) => `    ${line}\n`).join("")}  }\n`;
  });
  const body = [...sets, ...chains].join("\n");
  return `add table ${TABLE}\ndelete table ${TABLE}\ntable ${TABLE} {\n${body}}\n`;
}

/** One step of a table that is there, as two transactions. */
export interface StepScript {
  /** What nothing leads to yet; `""` where that is nothing. */
  readonly preparation: string;
  readonly change: string;
}

/**
 * Renders one step of a table that is there.
 *
 * New chains and sets have a transaction of their own, before the one that leads packets to them. A
 * packet that is under way while a transaction commits keeps the rules that it began with, but looks
 * into maps as they are: it would find a new chain empty, and its service gone (kernel 6.18; see
 * `nft_do_chain` and `nf_tables_commit_chain` in net/netfilter). Chains and sets go last, when nothing
 * names them any more.
 */
export function renderStep(operations: Operations): StepScript {
  const { addSets, addChains, rewriteChains, deleteChains, deleteSets } = operations;
  const preparation = [
    ...addSets.map(({ kind, name, body }) => `add ${kind} ${TABLE} ${name} { ${body}; }\n`),
    ...addChains.map(({ name }) => `add chain ${TABLE} ${name}\n`),
    ...addChains.map(renderRules),
  ];
  const change = [
    ...rewriteChains.map(({ after }) => `flush chain ${TABLE} ${after.name}\n`),
    ...rewriteChains.map(({ after }) => renderRules(after)),
    ...renderElements("delete", operations.deleteElements),
    ...renderElements("add", operations.addElements),
    ...deleteChains.map(({ name }) => `delete chain ${TABLE} ${name}\n`),
    ...deleteSets.map(({ kind, name }) => `delete ${kind} ${TABLE} ${name}\n`),
  ];
  return { preparation: preparation.join(""), change: change.join("") };
}

/** How many objects the operations add, rewrite or delete. */
export function countOperations(operations: Operations): number {
  return Object.values(operations).reduce((sum, list: readonly unknown[]) => sum + list.length, 0);
}

/** The step from one list of ServiceCIDRs to another. */
export function nodeElementChanges(
  before: DesiredNode,
  after: DesiredNode,
): Pick<Operations, "deleteElements" | "addElements"> {
  const old = nodeElements(before);
  const wanted = nodeElements(after);
  const missingIn = (list: readonly Element[]) => (element: Element) =>
    !list.some(({ set, key }) => set === element.set && key === element.key);
  return {
    deleteElements: old.filter(missingIn(wanted)),
    addElements: wanted.filter(missingIn(old)),
  };
}

function renderRules({ name, rules }: Chain): string {
  return rules.map((rule) => `add rule ${TABLE} ${name} ${rule}\n`).join("");
}

function renderElements(verb: "add" | "delete", elements: readonly Element[]): string[] {
  return [...groupBySet(elements)].map(([set, members]) =>
    `${verb} element ${TABLE} ${set} {\n${renderList(members, "  ")}}\n`
  );
}

function renderSetElements(elements: readonly Element[]): string {
  return elements.length === 0 ? "" : `    elements = {\n${renderList(elements, "      ")}    }\n`;
}

function renderList(elements: readonly Element[], indent: string): string {
  return `${elements.map((element) => indent + renderElement(element)).join(",\n")}\n`;
}

/** nft takes comments of up to 128 bytes; names are ASCII. */
const MAX_COMMENT = 127;

function renderElement({ key, data, comment }: Element): string {
  const remark = comment === "" ? "" : ` comment "${comment.slice(0, MAX_COMMENT)}"`;
  return data === "" ? `${key}${remark}` : `${key}${remark} : ${data}`;
}

function groupBySet(elements: readonly Element[]): Map<string, Element[]> {
  return Map.groupBy(elements, ({ set }) => set);
}
