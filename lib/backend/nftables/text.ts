/** Renders tables and changes as text for `nft`, and reads times from its text. */
import { atOnce } from "../../model/ports/in_turns.ts";
import type { Delta } from "./delta.ts";
import { printKey, slotPrinter, type TableSet } from "./sets.ts";
import {
  type Chain,
  type ChainRewrite,
  type Element,
  type Entry,
  frontendOf,
  slotData,
  TABLE,
  type Table,
} from "./table.ts";

/**
 * Begins a script that adds to the table. nft takes blocks in any order up to `CLOSE`, and refuses an input without
 * it. It would apply a list of commands that is cut off.
 */
export const OPEN = `table ${TABLE} {\n`;
export const CLOSE = "}\n";

/** `add` before `delete`: the delete finds a table on a fresh kernel too. */
export const REPLACE = `add table ${TABLE}\ndelete table ${TABLE}\n${OPEN}`;

export function printTable(table: Table): string {
  const declared = new Map(table.sets.map((set) => [set.name, set]));
  return `${REPLACE}${atOnce(printingBlocks(table, declared))}${CLOSE}`;
}

/** Returns sets, elements and chains as blocks, which repeat declarations. @param declared the sets so far */
export function* printingBlocks(
  { sets, chains, elements }: Pick<Table, "sets" | "chains" | "elements">,
  declared: ReadonlyMap<string, TableSet>,
): Generator<undefined, string> {
  const entries = new Map(sets.map(({ name }) => [name, new Array<string>()]));
  for (const each of elements) {
    const ofSet = entries.getOrInsert(each.set.name, []);
    ofSet.push(renderEntry("add", each, "      "));
    yield;
  }
  const blocks = [...declared.values()].map((set) => {
    const ofSet = entries.get(set.name);
    return ofSet ? printSet(set, ofSet) : "";
  });
  return blocks.join("") + chains.map(printChain).join("\n");
}

/** Returns the block of a set with elements. For a block, nft does not read the kernel's elements. */
export function printSet(
  { kind, name, body }: Pick<TableSet, "kind" | "name" | "body">,
  entries: readonly string[],
): string {
  const elements = entries.length === 0 ? "" : `    elements = {\n${entries.join(",\n")}\n    }\n`;
  return `  ${kind} ${name} {\n    ${body}\n${elements}  }\n\n`;
}

/**
 * Returns a copy of a base chain, later on its hook. While a transaction replaces a base chain, a packet may meet the
 * new chain just before the kernel's generation changes and the old chain just after: neither has rules for it then
 * (`nft_do_chain`, kernel 6.18). It finds the rules in the copy, which the next transaction deletes.
 */
export function lateCopy({ name, hook = "", rules }: Chain): Chain {
  const later = (_: string, priority: string) => String(Number(priority) + 3);
  return { type: "chain", name: `late-${name}`, hook: hook.replace(/(-?\d+)$/, later), rules };
}

/** Renders deletions of chains, which may lead to each other. */
export function renderDeletions(chains: readonly Pick<Chain, "name">[]): string {
  return [
    ...chains.map(({ name }) => `flush chain ${TABLE} ${name}\n`),
    ...chains.map(({ name }) => `delete chain ${TABLE} ${name}\n`),
  ].join("");
}

function printChain({ name, hook, rules }: Chain): string {
  const lines = hook === undefined ? rules : [`type ${hook};`, ...rules];
  return `  chain ${name} {\n${lines.map((line) => `    ${line}\n`).join("")}  }\n`;
}

/**
 * Renders a change as transactions. A packet under way keeps its old rules, but sees maps as they are (`nft_do_chain`,
 * kernel 6.18). So new chains and sets come first, and elements of frontends that moved go last.
 */
export function* renderingDelta(delta: Delta): Generator<undefined, string[]> {
  const { addSets, addChains, rewriteChains, deleteChains, deleteSets } = delta;
  const left = elementsInUse(delta);
  const emptied = new Set(delta.deleteElements.map(({ set: { name } }) => name));
  yield;
  const late = rewriteChains.filter(isMoved).map(({ after }) => lateCopy(after));
  const added = [...addChains, ...late];
  const stays = delta.deleteElements.filter((each) => !left.has(each));
  const preparation = [
    ...addSets.map(({ kind, name, body }) => `add ${kind} ${TABLE} ${name} { ${body}; }\n`),
    ...added.map(renderChain),
    ...added.map(renderRules),
  ];
  const change = [
    ...renderRewrites(rewriteChains),
    ...yield* renderingElements("delete", stays),
    ...yield* renderingElements("add", delta.addElements),
  ];
  const cleanup = [
    ...yield* renderingElements("delete", [...left]),
    // The elements of another program's map are unknown, and may lead to the chains.
    ...deleteSets.filter(({ kind, name }) => kind === "map" && !emptied.has(name))
      .map(({ name }) => `flush map ${TABLE} ${name}\n`),
    renderDeletions(deleteChains),
    ...deleteSets.map(({ kind, name }) => `delete ${kind} ${TABLE} ${name}\n`),
  ];
  const transactions = left.size === 0
    ? [preparation, [...change, ...cleanup]]
    : [preparation, change, cleanup];
  return [...transactions.map((commands) => commands.join("")), renderDeletions(late)]
    .filter((text) => text !== "");
}

function isMoved({ before, after }: ChainRewrite): boolean {
  return before.hook !== after.hook;
}

export function renderRewrites(rewrites: readonly ChainRewrite[]): string[] {
  return [
    ...rewrites.map(({ after }) => `flush chain ${TABLE} ${after.name}\n`),
    // The kernel does not change a hook: the chain is deleted and added again.
    ...rewrites.filter(isMoved).map(({ after }) =>
      `delete chain ${TABLE} ${after.name}\n${renderChain(after)}`
    ),
    ...rewrites.map(({ after }) => renderRules(after)),
  ];
}

function renderChain({ name, hook }: Chain): string {
  return `add chain ${TABLE} ${name}${hook === undefined ? "" : ` { type ${hook}; }`}\n`;
}

function renderRules({ name, rules }: Chain): string {
  return rules.map((rule) => `add rule ${TABLE} ${name} ${rule}\n`).join("");
}

/** Renders a command for each set or map. A deletion of slots names their keys alone. */
export function* renderingElements(
  verb: "add" | "delete",
  entries: readonly Entry[],
): Generator<undefined, string[]> {
  const commands: string[] = [];
  for (const [set, members] of Map.groupBy(entries, ({ set }) => set.name)) {
    const lines: string[] = [];
    for (const entry of members) {
      lines.push(renderEntry(verb, entry, "  "));
      yield;
    }
    commands.push(`${verb} element ${TABLE} ${set} {\n${lines.join(",\n")}\n}\n`);
  }
  return commands;
}

function renderEntry(verb: "add" | "delete", entry: Entry, indent: string): string {
  if (entry.type === "element") return indent + renderElement(entry);
  const keyOf = slotPrinter(entry.key);
  return entry.destinations.map((destination, i) =>
    indent + renderPair(keyOf(entry.first + i), verb === "add" ? slotData(destination) : "")
  ).join(",\n");
}

/** nft takes comments of up to 128 bytes; names are ASCII. */
const MAX_COMMENT = 127;

/** Returns an element's comment as nft prints it; `""` if it has none. */
export function commentOf({ comment }: Pick<Element, "comment">): string {
  return comment === "" ? "" : `comment "${comment.slice(0, MAX_COMMENT)}"`;
}

export function renderElement(element: Element): string {
  const key = printKey(element.key);
  const remark = commentOf(element);
  return renderPair(remark === "" ? key : `${key} ${remark}`, element.data);
}

function renderPair(key: string, data: string): string {
  return data === "" ? key : `${key} : ${data}`;
}

/** Finds elements of frontends that moved to another map or to affinity: packets under way still look there. */
function elementsInUse(
  { deleteElements, addElements }: Pick<Delta, "deleteElements" | "addElements">,
): ReadonlySet<Entry> {
  const added = new Set(addElements.filter(isFirst).map(placeOf));
  const gone = deleteElements.filter(({ set }) => set.role === "services");
  const unserved = new Set(gone.filter((each) => !added.has(placeOf(each))).map(frontendOf));
  const left = deleteElements.filter(isFirst).filter((each) =>
    LOOKED_UP.has(each.set.role) && !added.has(placeOf(each)) && !unserved.has(frontendOf(each))
  );
  if (left.length === 0) return new Set();
  const places = new Set(left.map(placeOf));
  return new Set(deleteElements.filter((each) => places.has(placeOf(each))));
}

/** The roles of maps that a packet reads after it found its frontend. */
const LOOKED_UP: ReadonlySet<string> = new Set(["endpoints", "localEndpoints", "shortCircuits"]);

/** Returns true for slot 0, which each frontend in a map has. */
function isFirst(entry: Entry): boolean {
  if (entry.type === "slots") return entry.first === 0;
  return entry.key.type !== "slot" || entry.key.slot === 0;
}

function placeOf(entry: Entry): string {
  return `${entry.set.name} ${frontendOf(entry)}`;
}

const UNIT_MILLISECONDS: Readonly<Record<string, number>> = {
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1_000,
  ms: 1,
};

/** Reads a time such as `2h59m59s980ms`; `undefined` if the text is not a time. */
export function milliseconds(time: string): number | undefined {
  if (!/^(?:\d+(?:ms|[dhms]))+$/.test(time)) return undefined;
  return [...time.matchAll(/(\d+)(ms|[dhms])/g)].reduce(
    (sum, [, number, unit = ""]) => sum + Number(number) * (UNIT_MILLISECONDS[unit] ?? 0),
    0,
  );
}
