/**
 * Rules as data: what stands in which chain, before it is text.
 *
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import type { Table } from "./names.ts";

/** A rule in a chain that many services share. */
export interface SharedRule {
  readonly table: Table;
  readonly chain: string;
  /** The rule without `-A chain`. */
  readonly rule: string;
  /**
   * Service rules of one chain match different destinations, so their order among themselves does
   * not matter. But rules for addresses stand before those that lead to node ports, which match them
   * too; and refusals before what refuses every other port of a virtual IP.
   */
  readonly place: "first" | "last";
}

/** What one service port needs: chains of its own (table `nat`), and rules in shared chains. */
export interface ServiceRules {
  /** Rules by chain, in order. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  readonly shared: readonly SharedRule[];
}

/** What is to become of one table, as input of `iptables-restore --noflush`. */
export interface TableInput {
  readonly table: string;
  /** Chains that are made, or emptied, then filled with these rules. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** Rules to delete, `chain rule`. */
  readonly deleted: readonly string[];
  /** Rules to put at the head of their chain, `chain rule`. */
  readonly inserted: readonly string[];
  /** Rules to put at the end of their chain, `chain rule`. */
  readonly appended: readonly string[];
  /** Chains to empty and remove. */
  readonly removed: readonly string[];
}

/** What is to become of one family's tables. */
export interface FamilyInput {
  readonly family: Family;
  readonly tables: readonly TableInput[];
}

/** A table's input without any operation. */
export function emptyTable(table: string): TableInput {
  return { table, chains: new Map(), deleted: [], inserted: [], appended: [], removed: [] };
}

/** Number of chains and rules that this input makes or deletes. */
export function countOperations(input: TableInput): number {
  let count = input.deleted.length + input.inserted.length + input.appended.length +
    input.removed.length;
  for (const rules of input.chains.values()) count += 1 + rules.length;
  return count;
}

/** Lines that are written at one go. */
const BATCH = 500;

/** The input as text; nothing where there is nothing to do. */
function* renderingTable(input: TableInput): Generator<undefined, string> {
  if (countOperations(input) === 0) return "";
  const texts: string[] = [];
  let lines: string[] = [];
  for (const line of linesOf(input)) {
    lines.push(line);
    if (lines.length < BATCH) continue;
    texts.push(lines.join("\n"));
    lines = [];
    yield;
  }
  return [...texts, ...lines, ""].join("\n");
}

function* linesOf(input: TableInput): Generator<string, void> {
  yield `*${input.table}`;
  for (const chain of input.chains.keys()) yield `:${chain} - [0:0]`;
  for (const chain of input.removed) yield `:${chain} - [0:0]`;
  for (const rule of input.deleted) yield `-D ${rule}`;
  for (const [chain, rules] of input.chains) {
    for (const rule of rules) yield `-A ${chain} ${rule}`;
  }
  for (const rule of input.inserted) yield `-I ${rule}`;
  for (const rule of input.appended) yield `-A ${rule}`;
  for (const chain of input.removed) yield `-X ${chain}`;
  yield "COMMIT";
}

/**
 * The tables of one family as one input of its restore program.
 *
 * @yields where other work can be done
 */
export function* renderFamily(input: FamilyInput): Generator<undefined, string> {
  let text = "";
  for (const table of input.tables) text += yield* renderingTable(table);
  return text;
}
