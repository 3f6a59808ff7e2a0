/** Reads the transactions that `nft monitor` prints. */
import type { Drift } from "../../model/kernel/differences.ts";
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

/** A transaction as its lines tell it. The last one ends it. */
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
    return this.isWholeTable ? "the whole table" : inWords(this.#missing);
  }

  get added(): string {
    return inWords(this.#added);
  }

  /**
   * `undefined` if not all are known: elements that go with their set are not printed, and a new set may be ours again.
   */
  get elementLines(): readonly string[] | undefined {
    const isKnown = this.newSets.length === 0 && this.#elements.length <= MAX_TOUCHED;
    return isKnown ? this.#elements : undefined;
  }

  add(line: string): void {
    const mark = parseMark(line);
    if (mark !== undefined) return void this.marks.push(mark);
    const [, verb, kind = "", name = ""] = CHANGE.exec(line) ?? [];
    // The devices of our flowtable come and go; it cannot be deleted while our rule names it.
    if (verb === undefined || ANONYMOUS.test(name) || kind === "flowtable") return;
    if (verb === "add" && (kind === "set" || kind === "map")) this.newSets.push(name);
    if (kind !== "element") this.touchesStructure = true;
    else if (this.#elements.length <= MAX_TOUCHED) this.#elements.push(line);
    const isDeletion = verb === "delete" || verb === "destroy";
    if (kind === "table") this.isWholeTable ||= isDeletion;
    else (isDeletion ? this.#missing : this.#added).add(describe(kind, name));
  }
}

export class TransactionReader {
  #current = new Transaction();

  /** @returns the transaction that the line ends @throws {Error} if the kernel dropped events */
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

const MAX_NAMED = 5;

export function inWords(things: Iterable<string>): string {
  const all = [...new Set(things)];
  const named = all.slice(0, MAX_NAMED).join(", ");
  const more = all.length - MAX_NAMED;
  return more > 0 ? `${named} and ${more} more` : named;
}

const ELEMENT = new RegExp(`^(\\w+) element ${TABLE} (\\S+) \\{ (.*) \\}$`);

/** Gathers the elements that other programs have touched since the last repair. */
export class Touched {
  /** `undefined`: anything may have been touched. */
  #elements: Map<string, Map<string, ElementText | undefined>> | undefined = new Map();
  /** Deleted elements that no other program had touched before. */
  #deleted: (readonly [set: string, key: string])[] = [];
  #count = 0;
  #isStructure = false;

  get isElementsOnly(): boolean {
    return this.#count > 0 && !this.#isStructure;
  }

  /** Returns the words of touched elements: addresses, ports, numbers of slots. */
  get words(): ReadonlySet<string> {
    const keys = [...this.#elements?.values() ?? []].flatMap((each) => [...each.keys()]);
    return new Set(keys.flatMap((key) => key.split(/[^\w.:]+/)));
  }

  add(
    { elementLines: lines, touchesStructure }: Pick<
      Transaction,
      "elementLines" | "touchesStructure"
    >,
  ): void {
    this.#isStructure ||= touchesStructure;
    if (lines === undefined || this.#count + lines.length > MAX_TOUCHED) this.all();
    else for (const line of lines) this.#addLine(line);
  }

  #addLine(line: string): void {
    const [, verb, set = "", text = ""] = ELEMENT.exec(line) ?? [];
    const [[key, element] = []] = parseElements(set, text);
    if (key === undefined) return this.all();
    this.#count++;
    const known = this.#elements?.get(set) ?? new Map<string, ElementText | undefined>();
    if (verb !== "add" && !known.has(key)) this.#deleted.push([set, key]);
    this.#elements?.set(set, known.set(key, verb === "add" ? element : undefined));
  }

  /** Notes that anything may have been touched. */
  all(): void {
    this.clear();
    this.#elements = undefined;
    this.#isStructure = true;
  }

  /** Notes that the table has the desired rules. */
  clear(): void {
    this.#elements = new Map();
    this.#deleted = [];
    this.#count = 0;
    this.#isStructure = false;
  }

  /**
   * Returns and forgets the touched elements; `undefined`: compare all.
   * @param isKnown tells if the table should have an element
   */
  take(isKnown: (set: string, key: string) => boolean): SomeElements | undefined {
    const [elements, deleted] = [this.#elements, this.#deleted];
    this.clear();
    return deleted.every(([set, key]) => isKnown(set, key)) ? elements : undefined;
  }
}

const MARK = new RegExp(`^add element ${TABLE} ${TRANSACTIONS.name} \\{ (0x[0-9a-f]+) `);

export function parseMark(line: string): number | undefined {
  const [, mark] = MARK.exec(line) ?? [];
  return mark === undefined ? undefined : Number(mark);
}
