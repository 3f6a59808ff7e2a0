/**
 * The whole table as text for `nft -f -`, written piece by piece: of a large cluster, all elements
 * as objects would take ten times the memory of the text.
 *
 * @module
 */
import type { DesiredNode } from "../model/desired.ts";
import type { GatheredOperations } from "./diff.ts";
import { fixedChains, fixedSets, nodeElements } from "./layout.ts";
import {
  type Chain,
  type Element,
  type NamedSet,
  slotData,
  slotKey,
  type Slots,
  TABLE,
} from "./objects.ts";
import { countOperations, renderElementList, renderPair } from "./script.ts";

const INDENT = "      ";

/** Gathers the way from nothing to all services, and prints it. */
export class TableText {
  readonly #node: DesiredNode;
  readonly #sets: NamedSet[];
  readonly #chains: Chain[] = [];
  /** By set or map, its elements as text, in pieces. */
  readonly #elements = new Map<string, string[]>();
  readonly #counts = new Map<string, number>();
  #operations = 0;

  /** @param node the node's part of the table */
  constructor(node: DesiredNode) {
    this.#node = node;
    this.#sets = fixedSets();
    this.#addElements(nodeElements(node));
  }

  /** Number of operations so far, but for those of the node. */
  get operations(): number {
    return this.#operations;
  }

  /** Number of elements so far, by set or map. */
  get elements(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** The sets and maps so far. */
  get sets(): readonly NamedSet[] {
    return this.#sets;
  }

  /** Adds some services, none of which was there. */
  add({ addSlots, ...operations }: GatheredOperations): void {
    this.#sets.push(...operations.addSets);
    this.#chains.push(...operations.addChains);
    this.#addElements(operations.addElements);
    this.#operations += countOperations(operations) + this.#addSlots(addSlots);
  }

  /**
   * The script. It replaces what is there: `add` before `delete`, so that the delete finds a table
   * on a fresh kernel too. All in one transaction.
   */
  render(): string {
    const parts = [`add table ${TABLE}\ndelete table ${TABLE}\ntable ${TABLE} {\n`];
    for (const { kind, name, body } of this.#sets) {
      parts.push(`  ${kind} ${name} {\n    ${body}\n`, ...this.#renderElements(name), "  }\n\n");
    }
    const chains = [...this.#chains, ...fixedChains(this.#node)].map((chain) => {
      const lines = "hook" in chain ? [`type ${chain.hook};`, ...chain.rules] : chain.rules;
      return `  chain ${chain.name} {\n${lines.map((line) => `    ${line}\n`).join("")}  }\n`;
    });
    parts.push(chains.join("\n"), "}\n");
    return parts.join("");
  }

  #addElements(elements: readonly Element[]): void {
    for (const [set, members] of Map.groupBy(elements, ({ set }) => set)) {
      this.#addPiece(set, renderElementList(members, INDENT), members.length);
    }
  }

  /** @returns how many elements they are */
  #addSlots(slots: readonly Slots[]): number {
    let count = 0;
    for (const [set, members] of Map.groupBy(slots, ({ set }) => set)) {
      const lines = members.flatMap(({ key, destinations }) =>
        destinations.map((each, slot) => INDENT + renderPair(slotKey(key, slot), slotData(each)))
      );
      this.#addPiece(set, lines.join(",\n"), lines.length);
      count += lines.length;
    }
    return count;
  }

  #addPiece(set: string, text: string, count: number): void {
    const pieces = this.#elements.get(set) ?? [];
    pieces.push(text);
    this.#elements.set(set, pieces);
    this.#counts.set(set, (this.#counts.get(set) ?? 0) + count);
  }

  #renderElements(set: string): string[] {
    const pieces = this.#elements.get(set) ?? [];
    return pieces.map((piece, i) =>
      (i === 0 ? "    elements = {\n" : "") + piece +
      (i < pieces.length - 1 ? ",\n" : "\n    }\n")
    );
  }
}
