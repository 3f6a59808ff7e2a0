/**
 * The step from one state to another as text for `nft`.
 *
 * @module
 */
import type { DesiredNode } from "../../../model/kernel/desired.ts";
import type { Operations } from "./diff.ts";
import { frontendOfKey, printKey } from "./keys.ts";
import { nodeElements } from "./layout.ts";
import { type Chain, type Element, elementId, TABLE } from "./objects.ts";
import { COUNTING_ROLE } from "./sets.ts";

/**
 * Renders one step of a table that is there, as transactions.
 *
 * A packet that is under way while a transaction commits keeps the rules that it began with, but looks
 * into maps as they are (kernel 6.18; see `nft_do_chain` and `nf_tables_commit_chain` in
 * net/netfilter). So new chains and sets come first, in a transaction of their own: it would find a new
 * chain empty, and its service gone. What frontends leave behind goes last, in a third one: it would
 * find its slots gone, and be refused. Chains and sets go when nothing names them any more.
 *
 * @yields where other work can be done
 * @returns the transactions in their order; none is empty
 */
export function* renderingStep(operations: Operations): Generator<undefined, string[]> {
  const { addSets, addChains, rewriteChains, deleteChains, deleteSets } = operations;
  const left = leftBehind(operations);
  const emptied = new Set(operations.deleteElements.map(({ set: { name } }) => name));
  yield;
  const stays = operations.deleteElements.filter((each) => !left.has(each));
  const preparation = [
    ...addSets.map(({ kind, name, body }) => `add ${kind} ${TABLE} ${name} { ${body}; }\n`),
    ...addChains.map(renderChain),
    ...addChains.map(renderRules),
  ];
  const change = [
    ...rewriteChains.map(({ after }) => `flush chain ${TABLE} ${after.name}\n`),
    // The kernel does not change a hook: the chain is deleted and added again.
    ...rewriteChains.filter(({ before, after }) => before.hook !== after.hook).map(({ after }) =>
      `delete chain ${TABLE} ${after.name}\n${renderChain(after)}`
    ),
    ...rewriteChains.map(({ after }) => renderRules(after)),
    ...yield* renderElements("delete", stays),
    ...yield* renderElements("add", operations.addElements),
  ];
  const cleanup = [
    ...yield* renderElements("delete", [...left]),
    // A map of another program's, of whose elements nothing is known: they may lead to the chains.
    ...deleteSets.filter(({ kind, name }) => kind === "map" && !emptied.has(name))
      .map(({ name }) => `flush map ${TABLE} ${name}\n`),
    ...deleteChains.map(({ name }) => `delete chain ${TABLE} ${name}\n`),
    ...deleteSets.map(({ kind, name }) => `delete ${kind} ${TABLE} ${name}\n`),
  ];
  const others = left.size === 0 ? [[...change, ...cleanup]] : [change, cleanup];
  return [preparation, ...others].map((commands) => commands.join("")).filter((text) =>
    text !== ""
  );
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
    !list.some((each) => elementId(each) === elementId(element));
  return {
    deleteElements: old.filter(missingIn(wanted)),
    addElements: wanted.filter(missingIn(old)),
  };
}

function renderChain({ name, hook }: Chain): string {
  return `add chain ${TABLE} ${name}${hook === undefined ? "" : ` { type ${hook}; }`}\n`;
}

function renderRules({ name, rules }: Chain): string {
  return rules.map((rule) => `add rule ${TABLE} ${name} ${rule}\n`).join("");
}

/** Elements that are rendered at one go. */
const BATCH = 200;

/** Commands that add or delete elements, one for each set or map. */
function* renderElements(
  verb: "add" | "delete",
  elements: readonly Element[],
): Generator<undefined, string[]> {
  const commands: string[] = [];
  for (const [set, members] of Map.groupBy(elements, ({ set }) => set.name)) {
    const parts: string[] = [];
    for (let i = 0; i < members.length; i += BATCH) {
      if (i > 0) yield;
      parts.push(renderElementList(members.slice(i, i + BATCH), "  "));
    }
    commands.push(elementCommand(verb, { set, lines: parts }));
  }
  return commands;
}

/**
 * Returns the command that adds or deletes elements of a set or map.
 *
 * @param elements `lines`: elements, or parts with commas between their elements; not empty
 */
export function elementCommand(
  verb: "add" | "delete",
  { set, lines }: { readonly set: string; readonly lines: readonly string[] },
): string {
  return `${verb} element ${TABLE} ${set} {\n${lines.join(",\n")}\n}\n`;
}

/** Elements of one set or map, one on each line, with commas between them. */
export function renderElementList(elements: readonly Element[], indent: string): string {
  return elements.map((element) => indent + renderElement(element)).join(",\n");
}

/** nft takes comments of up to 128 bytes; names are ASCII. */
const MAX_COMMENT = 127;

/** An element's comment as nft takes and prints it; `""` where it has none. */
export function commentOf({ comment }: Pick<Element, "comment">): string {
  return comment === "" ? "" : `comment "${comment.slice(0, MAX_COMMENT)}"`;
}

function renderElement(element: Element): string {
  const key = printKey(element.key);
  const remark = commentOf(element);
  return renderPair(remark === "" ? key : `${key} ${remark}`, element.data);
}

/** Returns an element's text; `data` is empty in a set, and to delete an element. */
export function renderPair(key: string, data: string): string {
  return data === "" ? key : `${key} : ${data}`;
}

/**
 * Finds the elements of frontends that leave a map and are served on: by another map's slots, or by
 * session affinity. Packets under way still look there.
 */
function leftBehind(
  { deleteElements, addElements }: Pick<Operations, "deleteElements" | "addElements">,
): ReadonlySet<Element> {
  const added = new Set(addElements.filter(isFirst).map(placeOf));
  const gone = deleteElements.filter(({ set }) => set.role === COUNTING_ROLE);
  const unserved = new Set(gone.filter((each) => !added.has(placeOf(each))).map(frontendOf));
  const left = deleteElements.filter(isFirst).filter((each) =>
    LOOKED_UP.has(each.set.role) && !added.has(placeOf(each)) && !unserved.has(frontendOf(each))
  );
  if (left.length === 0) return new Set();
  const places = new Set(left.map(placeOf));
  return new Set(deleteElements.filter((each) => places.has(placeOf(each))));
}

/** Lists the roles of maps that a packet reads after it found its frontend. */
const LOOKED_UP: ReadonlySet<string> = new Set(["endpoints", "localEndpoints", "shortCircuits"]);

/** A frontend in a map has slot 0, if any. */
function isFirst({ key }: Element): boolean {
  return key.type !== "slot" || key.slot === 0;
}

/** Names a frontend in a map. */
function placeOf(element: Element): string {
  return `${element.set.name} ${frontendOf(element)}`;
}

/** Node ports of both families have the same key. */
function frontendOf({ set, key }: Element): string {
  return `${set.family} ${printKey(frontendOfKey(key) ?? key)}`;
}
