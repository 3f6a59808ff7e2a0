/** Reads the transactions that `nft monitor` prints. */
import { shortList } from "../../model/values/text.ts";
import type { Drift } from "../../model/kernel/dataplane.ts";
import { TRANSACTIONS } from "./nft.ts";
import { type ElementText, parseElements, type SomeElements } from "./read.ts";
import { TABLE } from "./table.ts";

const CHANGE = new RegExp(`^(\\w+) (?:ct )?(\\w+) ${TABLE}(?: (\\S+)|\\s*$)`);
const GENERATION = /^# new generation (\d+)(?: by process (\d+) \((.*)\))?/;
const LOST = /lost .*events/i;

/** Matches a set or map in a rule, which goes with the rule. */
const ANONYMOUS = /^__(?:set|map)\d+$/;

/** If more elements change, all have to be compared. */
const MAX_TOUCHED = 1_000;

/**
 * Characters of an element's line. For each deleted source range, nft 1.0.6 prints 350 kB, because it reads the range's
 * end from memory that it has not set. A longer line is not kept, so all elements have to be compared.
 */
const MAX_ELEMENT = 1_000;

/** Collects the lines of a transaction. */
export class Transaction implements Drift {
  /** The number of the ruleset, in 32 bits. */
  generation = 0;
  by = "";
  readonly marks: number[] = [];
  readonly newSets: string[] = [];
  touchesStructure = false;
  isWholeTable = false;
  readonly #missing = new Set<string>();
  readonly #added = new Set<string>();
  readonly #elements: string[] = [];

  get missing(): string {
    return this.isWholeTable ? "the whole table" : shortList(this.#missing);
  }

  get added(): string {
    return shortList(this.#added);
  }

  /** `undefined` if some are unknown: nft does not print a deleted set's elements, and a new set may replace it. */
  get elementLines(): readonly string[] | undefined {
    const isKnown = this.newSets.length === 0 && this.#elements.length <= MAX_TOUCHED;
    return isKnown ? this.#elements : undefined;
  }

  add(line: string): void {
    const mark = parseMark(line);
    if (mark !== undefined) return void this.marks.push(mark);
    const [, verb, kind = "", name = ""] = CHANGE.exec(line) ?? [];
    // Our flowtable gains and loses devices. It cannot be deleted while our rule names it.
    if (verb === undefined || ANONYMOUS.test(name) || kind === "flowtable") return;
    if (verb === "add" && (kind === "set" || kind === "map")) this.newSets.push(name);
    if (kind !== "element") this.touchesStructure = true;
    else if (this.#elements.length <= MAX_TOUCHED) {
      this.#elements.push(line.length > MAX_ELEMENT ? "" : line);
    }
    const isDeletion = verb === "delete" || verb === "destroy";
    if (kind === "table") this.isWholeTable ||= isDeletion;
    else (isDeletion ? this.#missing : this.#added).add(describe(kind, name));
  }
}

export class TransactionReader {
  #current = new Transaction();

  /** Reads a line. @returns the transaction that it ends @throws {Error} if the kernel dropped events */
  read(line: string): Transaction | undefined {
    const transaction = this.#current;
    if (!line.startsWith("#")) return void transaction.add(line);
    if (LOST.test(line)) throw new Error("the kernel dropped events");
    const [match, generation, pid = "", name = ""] = GENERATION.exec(line) ?? [];
    if (match === undefined) return undefined;
    this.#current = new Transaction();
    transaction.generation = Number(generation);
    transaction.by = pid === "" ? "" : `${name} (pid ${pid})`;
    return transaction;
  }
}

/** Names an object. A map is a set here: nft 1.0.6 calls a deleted map a set, newer versions call it a map. */
function describe(kind: string, name: string): string {
  return `${kind === "map" ? "set" : kind} of ${name}`;
}

const ELEMENT = new RegExp(`^(\\w+) element ${TABLE} (\\S+) \\{ (.*) \\}$`);

/** Collects what other programs have touched since the last repair. The kernel holds what the last report says. */
export class Touched {
  /** `undefined`: anything may have been touched. */
  #elements: Map<string, Map<string, ElementText | undefined>> | undefined = new Map();
  #isStructure = false;
  #count = 0;

  add(
    { elementLines: lines, touchesStructure }: Pick<
      Transaction,
      "elementLines" | "touchesStructure"
    >,
  ): void {
    this.#isStructure ||= touchesStructure;
    this.#count += lines?.length ?? Infinity;
    if (this.#count > MAX_TOUCHED) this.#elements = undefined;
    else for (const line of lines ?? []) this.#addLine(line);
  }

  #addLine(line: string): void {
    const [, verb, set = "", text = ""] = ELEMENT.exec(line) ?? [];
    const [[key, element] = []] = parseElements(set, text);
    if (key === undefined) return void (this.#elements = undefined);
    const known = this.#elements?.get(set) ?? new Map<string, ElementText | undefined>();
    this.#elements?.set(set, known.set(key, verb === "add" ? element : undefined));
  }

  /** Returns and forgets what was touched. @returns `elements`: `undefined` if any may have been */
  take(): { readonly elements: SomeElements | undefined; readonly isStructure: boolean } {
    const taken = { elements: this.#elements, isStructure: this.#isStructure };
    [this.#elements, this.#isStructure, this.#count] = [new Map(), false, 0];
    return taken;
  }
}

const MARK = new RegExp(`^add element ${TABLE} ${TRANSACTIONS.name} \\{ (0x[0-9a-f]+) `);

export function parseMark(line: string): number | undefined {
  const [, mark] = MARK.exec(line) ?? [];
  return mark === undefined ? undefined : Number(mark);
}
