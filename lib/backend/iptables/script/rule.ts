/** Writes rules as `iptables-save` does, and renders changes as input of `iptables-restore`. */
import { ADDRESS_BITS, type Family } from "../../../model/values/address.ts";
import type { LocalDetector } from "../../../model/kernel/desired.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";
import type { Table } from "./names.ts";

/** Joins the words that are not empty. */
export function rule(...words: readonly (string | undefined)[]): string {
  return words.filter((word) => word !== undefined && word !== "").join(" ");
}

/** Returns `address/32` or `address/128`, as `iptables-save` prints an address. */
export function host(family: Family, address: string): string {
  return `${address}/${ADDRESS_BITS[family]}`;
}

/** Returns `-m comment --comment …`. */
export function comment(text: string): string {
  return `-m comment --comment ${quote(text)}`;
}

/** Returns `-m tcp --dport 80`. `-p tcp` stands before the matches. */
export function port(protocol: Protocol, number: number): string {
  return `-m ${protocol} --dport ${number}`;
}

/** Returns a `-m statistic` match of one in `oneOf` packets; `undefined` for 1. The kernel keeps 31 bits. */
export function chance(oneOf: number): string | undefined {
  if (oneOf <= 1) return undefined;
  const probability = Math.round(2 ** 31 / oneOf) / 2 ** 31;
  return `-m statistic --mode random --probability ${probability.toFixed(11)}`;
}

/** Returns a mark and its mask: `0x4000/0x4000`. */
export function markAndMask(mark: number): string {
  const hex = `0x${(mark >>> 0).toString(16)}`;
  return `${hex}/${hex}`;
}

/** The match of a packet's origin, `-s …` or `-i …`, which have different places in a rule. */
interface Origin {
  readonly source: string;
  readonly input: string;
}

/** Returns the match for packets from pods of this node, or with `"!"` from elsewhere. */
export function fromLocalPod(detector: LocalDetector, not: "" | "!" = ""): Origin {
  switch (detector.type) {
    case "cidr":
      return { source: rule(not, "-s", detector.cidr), input: "" };
    case "interface":
      return { source: "", input: rule(not, "-i", interfaceName(detector.name)) };
    case "interfacePrefix":
      return { source: "", input: rule(not, "-i", interfaceName(detector.prefix, "+")) };
  }
}

/** The longest interface name (IFNAMSIZ without the final zero). */
const LONGEST_INTERFACE_NAME = 15;

/** Prints a name. @param wildcard `+` matches all names with this beginning; a name of full length needs none */
function interfaceName(name: string, wildcard: "" | "+" = ""): string {
  const text = name.length < LONGEST_INTERFACE_NAME ? name + wildcard : name;
  return /^[\w.:@+-]+$/.test(text) ? text : quote(text);
}

/** Quotes an argument as `iptables-save` does. Characters outside printable ASCII become `?`. */
export function quote(text: string): string {
  const printable = text.replace(/[^\x20-\x7e]/g, "?");
  if (/^[\w-]+$/.test(printable)) return printable;
  return `"${printable.replace(/["\\']/g, "\\$&")}"`;
}

export function reject(family: Family): string {
  return `-j REJECT --reject-with ${family === 4 ? "icmp" : "icmp6"}-port-unreachable`;
}

/** A rule in a chain that many Services share. */
export interface SharedRule {
  readonly table: Table;
  readonly chain: string;
  /** Without `-A chain`. */
  readonly rule: string;
  /** The side of the chain's fixed rules. The order of Service rules does not matter: their destinations differ. */
  readonly place: "first" | "last";
}

export interface ServiceRules {
  /** The rules of the Service's own chains, in the table `nat`. */
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
  readonly appended: readonly string[];
  /** Chains to flush and delete. */
  readonly removed: readonly string[];
  /** The number of rules that flushed and deleted chains had; 0 if unknown. */
  readonly flushed: number;
}

export interface FamilyInput {
  readonly family: Family;
  readonly tables: readonly TableInput[];
}

export function emptyTable(table: string): TableInput {
  const nothing = { deleted: [], inserted: [], appended: [], removed: [], flushed: 0 };
  return { table, chains: new Map(), ...nothing };
}

export function countRules({ chains, inserted, appended }: TableInput): number {
  let count = inserted.length + appended.length;
  for (const rules of chains.values()) count += rules.length;
  return count;
}

export function countOperations(input: TableInput): number {
  return countRules(input) + input.chains.size + input.deleted.length + input.removed.length;
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

/** Renders the tables of one family as one input of its restore program. @yields when other work can run */
export function* renderFamily({ tables }: FamilyInput): Generator<undefined, string> {
  let text = "";
  for (const table of tables.filter((each) => countOperations(each) > 0)) {
    for (const line of linesOf(table)) {
      text += `${line}\n`;
      yield;
    }
  }
  return text;
}
