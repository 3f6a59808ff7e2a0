/**
 * Reads what `nft monitor` prints: transactions, each of which ends with a line that names the
 * process.
 *
 * @module
 */
import type { Drift } from "../../../model/kernel/differences.ts";
import { TABLE } from "../script/objects.ts";
import { parseMark } from "./marks.ts";
import { MAX_TOUCHED, type TouchedByOne } from "./touched.ts";

/** One commit of one program, as far as it is about our table. */
export interface Transaction extends Drift, TouchedByOne {
  /** The number of the ruleset that it made; 32 bits, counted on and on. */
  readonly generation: number;
  /**
   * `undefined` where they are more than are kept, or not all: of elements that go with their set
   * nothing is printed, and a set that came may be one of ours again.
   */
  readonly elementLines: TouchedByOne["elementLines"];
  /** The marks that it carries. */
  readonly marks: readonly number[];
  /** Our table was deleted. */
  readonly isWholeTable: boolean;
  /** Names of sets and maps that were added. */
  readonly newSets: readonly string[];
}

const CHANGE = new RegExp(`^(\\w+) (?:ct )?(\\w+) ${TABLE}(?: (\\S+)|\\s*$)`);
const GENERATION = /^# new generation (\d+)(?: by process (\d+) \((.*)\))?/;
const LOST = /lost .*events/i;

/** A set or map that stands in a rule, as the kernel names it; it goes with its rule. */
const ANONYMOUS = /^__(?:set|map)\d+$/;

/** Gathers lines to transactions. */
export class TransactionReader {
  #missing = new Set<string>();
  #added = new Set<string>();
  #marks: number[] = [];
  #elementLines: string[] | undefined = [];
  #touchesStructure = false;
  #isWholeTable = false;
  #newSets: string[] = [];

  /**
   * Takes the next line.
   *
   * @returns the transaction that it ends; `undefined` in the midst of one
   * @throws {Error} where the kernel dropped events
   */
  read(line: string): Transaction | undefined {
    if (!line.startsWith("#")) return this.#readChange(line);
    if (LOST.test(line)) throw new Error("the kernel dropped events");
    const [match, generation, pid = "", name = ""] = GENERATION.exec(line) ?? [];
    if (match === undefined) return undefined;
    const by = pid === "" ? "" : `${name} (pid ${pid})`;
    return this.#end({ by, generation: Number(generation) });
  }

  #readChange(line: string): undefined {
    const mark = parseMark(line);
    if (mark !== undefined) {
      this.#marks.push(mark);
      return;
    }
    const [, verb, kind = "", name = ""] = CHANGE.exec(line) ?? [];
    // The devices of our flowtable come and go; it cannot be deleted while our rule names it.
    if (verb === undefined || ANONYMOUS.test(name) || kind === "flowtable") return;
    if (verb === "add" && (kind === "set" || kind === "map")) this.#newSets.push(name);
    if (kind === "element" && this.#elementLines?.push(line) === MAX_TOUCHED + 1) {
      this.#elementLines = undefined;
    }
    this.#touchesStructure ||= kind !== "element";
    const isDeletion = verb === "delete" || verb === "destroy";
    if (kind === "table") this.#isWholeTable ||= isDeletion;
    else (isDeletion ? this.#missing : this.#added).add(describe(kind, name));
  }

  #end(last: Pick<Transaction, "by" | "generation">): Transaction {
    const isWholeTable = this.#isWholeTable;
    const transaction = {
      missing: isWholeTable ? "the whole table" : inWords(this.#missing),
      added: inWords(this.#added),
      ...last,
      elementLines: this.#newSets.length === 0 ? this.#elementLines : undefined,
      touchesStructure: this.#touchesStructure,
      marks: this.#marks,
      isWholeTable,
      newSets: this.#newSets,
    };
    this.#missing = new Set();
    this.#added = new Set();
    this.#marks = [];
    this.#elementLines = [];
    this.#touchesStructure = false;
    this.#isWholeTable = false;
    this.#newSets = [];
    return transaction;
  }
}

/** nft 1.0.6 calls a map that is deleted a set; newer ones call it a map. */
function describe(kind: string, name: string): string {
  return `${kind === "map" ? "set" : kind} of ${name}`;
}

const MAX_NAMED = 5;

/** The first few of some things, and how many more there are. */
export function inWords(things: Iterable<string>): string {
  const all = [...new Set(things)];
  const named = all.slice(0, MAX_NAMED).join(", ");
  const more = all.length - MAX_NAMED;
  return more > 0 ? `${named} and ${more} more` : named;
}
