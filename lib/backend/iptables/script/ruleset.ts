/**
 * Defines rules as data, and renders them as input of `iptables-restore`.
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import type { Table } from "./names.ts";

/** A rule in a chain that many Services share. */
export interface SharedRule {
  readonly table: Table;
  readonly chain: string;
  /** The rule without `-A chain`. */
  readonly rule: string;
  /**
   * The place of the rule. Service rules of one chain match different destinations, so their order has no effect.
   * Rules for addresses precede node ports, and refusals precede the guards of virtual IPs.
   */
  readonly place: "first" | "last";
}

/** The rules of one service port: chains of its own (table `nat`), and rules in shared chains. */
export interface ServiceRules {
  /** Rules by chain, in order. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  readonly shared: readonly SharedRule[];
}

/** The changes of one table, as input of `iptables-restore --noflush`. */
export interface TableInput {
  readonly table: string;
  /** Chains to create or flush, then fill with these rules. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** Rules to delete, `chain rule`. */
  readonly deleted: readonly string[];
  /** Rules to insert at the head of their chain, `chain rule`. */
  readonly inserted: readonly string[];
  /** Rules to append to their chain, `chain rule`. */
  readonly appended: readonly string[];
  /** Chains to flush and delete. */
  readonly removed: readonly string[];
}

/** The changes of one family's tables. */
export interface FamilyInput {
  readonly family: Family;
  readonly tables: readonly TableInput[];
}

/** Returns a table's input without operations. */
export function emptyTable(table: string): TableInput {
  return { table, chains: new Map(), deleted: [], inserted: [], appended: [], removed: [] };
}

/** Counts the chains and rules that this input creates or deletes. */
export function countOperations(input: TableInput): number {
  let count = input.deleted.length + input.inserted.length + input.appended.length +
    input.removed.length;
  for (const rules of input.chains.values()) count += 1 + rules.length;
  return count;
}

/** Lines that are rendered without a break. */
const BATCH = 500;

/** Renders the input as text, empty if there are no operations. */
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
 * Renders the tables of one family as one input of its restore program.
 * @yields when other work can run
 */
export function* renderFamily(input: FamilyInput): Generator<undefined, string> {
  let text = "";
  for (const table of input.tables) text += yield* renderingTable(table);
  return text;
}
