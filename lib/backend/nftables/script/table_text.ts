/**
 * All of the table as text for `nft`, written piece by piece: of a large cluster, all elements as
 * objects would take ten times the memory of the text.
 *
 * @module
 */
import type { DesiredNode } from "../../../model/kernel/desired.ts";
import type { GatheredOperations } from "./diff.ts";
import { slotPrinter } from "./keys.ts";
import { fixedChains, nodeElements } from "./layout.ts";
import { type Chain, type Element, slotData, type Slots, TABLE } from "./objects.ts";
import { countOperations, renderElementList, renderPair } from "./script.ts";
import { alwaysThere, type TableSet } from "./sets.ts";

const INDENT = "      ";

/**
 * Characters of elements from which a set is written before the end of the table. It is declared
 * again for each such block: to the kernel, that is one declaration.
 */
const LONG = 64 * 1024;

/** A set with those of its elements that are not written yet. */
interface PendingSet {
  readonly set: TableSet;
  /** As text, in parts that go together with commas. */
  parts: string[];
  length: number;
  isWritten: boolean;
  /** Of all its elements, written or not. */
  count: number;
}

/**
 * Gathers the way from nothing to all services, and writes it: `begin()`, then any number of
 * `add()` and `longSets()`, then `end()`. Or in transactions: any number of `add()` and `portion()`,
 * then `lastPortion()`.
 */
export class TableText {
  readonly #sets = new Map<string, PendingSet>();
  /** The number of rules of each chain that services share, written or not. */
  readonly #rules = new Map<string, number>();
  /** Chains that are not written yet: those that services share, and the fixed ones. */
  #chains: Chain[] = [];
  #fixedChains: Chain[];
  #isBegun = false;
  #operations = 0;

  /** @param node the node's part of the table */
  constructor(node: DesiredNode) {
    this.#fixedChains = fixedChains(node);
    this.#addSets(alwaysThere(node));
    this.#addElements(nodeElements(node));
  }

  /** Number of operations so far, but for those of the node. */
  get operations(): number {
    return this.#operations;
  }

  /** Number of elements so far, by set or map that has any. */
  get elements(): Map<string, number> {
    const filled = [...this.#sets.values()].filter(({ count }) => count > 0);
    return new Map(filled.map(({ set, count }) => [set.name, count]));
  }

  /** Number of rules, by chain that services share, so far; sets and maps are there with 0. */
  get rules(): Map<string, number> {
    return new Map([
      ...this.sets.map(({ name }) => [name, 0] as const),
      ...this.#rules,
    ]);
  }

  /** The sets and maps so far. */
  get sets(): readonly TableSet[] {
    return [...this.#sets.values()].map(({ set }) => set);
  }

  /** Adds some services, none of which was there. */
  add({ addSlots, ...operations }: GatheredOperations): void {
    this.#addSets(operations.addSets);
    for (const chain of operations.addChains) {
      this.#chains.push(chain);
      this.#rules.set(chain.name, chain.rules.length);
    }
    this.#addElements(operations.addElements);
    this.#operations += countOperations(operations) + this.#addSlots(addSlots);
  }

  /**
   * The beginning. The script replaces what is there: `add` before `delete`, so that the delete
   * finds a table on a fresh kernel too. All in one transaction.
   */
  begin(): string {
    return `${REPLACE}${OPEN}`;
  }

  /**
   * What has come since the last portion, but for base chains: a transaction that leads no packet
   * anywhere. The first one replaces what is there.
   */
  portion(): string {
    const before = this.#isBegun ? "" : REPLACE;
    this.#isBegun = true;
    const isReachable = ({ hook }: Chain) => hook !== undefined;
    const all = [...this.#chains, ...this.#fixedChains];
    this.#chains = this.#chains.filter(isReachable);
    this.#fixedChains = this.#fixedChains.filter(isReachable);
    return `${before}${OPEN}${this.#writeSets()}${
      writeChains(all.filter((chain) => !isReachable(chain)))
    }}\n`;
  }

  /** The rest, with the base chains: from then on packets meet the table. */
  lastPortion(): string {
    return `${OPEN}${this.end()}`;
  }

  /** The sets that have become long, as far as they have. */
  *longSets(): Generator<string, void> {
    for (const pending of this.#sets.values()) {
      if (pending.length >= LONG) yield writeSet(pending);
    }
  }

  /** All that is left: the other sets, and the chains. nft puts things into an order that works. */
  end(): string {
    return `${this.#writeSets()}${writeChains([...this.#chains, ...this.#fixedChains])}}\n`;
  }

  /** The sets that have something to write. */
  #writeSets(): string {
    return [...this.#sets.values()]
      .filter(({ isWritten, length }) => !isWritten || length > 0).map(writeSet).join("");
  }

  #addSets(sets: readonly TableSet[]): void {
    for (const set of sets) {
      this.#sets.set(set.name, { set, parts: [], length: 0, isWritten: false, count: 0 });
    }
  }

  #addElements(elements: readonly Element[]): void {
    for (const [set, members] of Map.groupBy(elements, ({ set }) => set.name)) {
      this.#addPart(set, renderElementList(members, INDENT), members.length);
    }
  }

  /** @returns how many elements they are */
  #addSlots(slots: readonly Slots[]): number {
    let count = 0;
    for (const [set, members] of Map.groupBy(slots, ({ set }) => set.name)) {
      const lines = renderSlots(members);
      this.#addPart(set, lines.join(",\n"), lines.length);
      count += lines.length;
    }
    return count;
  }

  #addPart(name: string, text: string, count: number): void {
    const pending = this.#sets.get(name);
    if (pending === undefined) throw new Error(`there is no set ${name}`);
    pending.parts.push(text);
    pending.length += text.length;
    pending.count += count;
  }
}

const REPLACE = `add table ${TABLE}\ndelete table ${TABLE}\n`;
const OPEN = `table ${TABLE} {\n`;

function writeChains(chains: readonly Chain[]): string {
  return chains.map(({ name, hook, rules }) => {
    const lines = hook === undefined ? rules : [`type ${hook};`, ...rules];
    return `  chain ${name} {\n${lines.map((line) => `    ${line}\n`).join("")}  }\n`;
  }).join("\n");
}

/** The slots of some frontends, a line for each. */
function renderSlots(slots: readonly Slots[]): string[] {
  return slots.flatMap(({ key, destinations }) => {
    const slotKey = slotPrinter(key);
    return destinations.map((each, i) => INDENT + renderPair(slotKey(i), slotData(each)));
  });
}

/** Writes what a set has; it has nothing then. */
function writeSet(pending: PendingSet): string {
  const { set: { kind, name, body }, parts } = pending;
  pending.parts = [];
  pending.length = 0;
  pending.isWritten = true;
  const elements = parts.length === 0 ? "" : `    elements = {\n${parts.join(",\n")}\n    }\n`;
  return `  ${kind} ${name} {\n    ${body}\n${elements}  }\n\n`;
}
