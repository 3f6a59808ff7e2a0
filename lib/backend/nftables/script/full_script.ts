/**
 * The script that replaces the table, made while `nft` reads it.
 *
 * @module
 */
import type { Script } from "../../../model/kernel/dataplane.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
} from "../../../model/kernel/desired.ts";
import { atOnce, sortingByKey } from "../../../model/ports/in_turns.ts";
import { type Difference, type GatheredOperations, gatheringServices } from "./diff.ts";
import { fixedChains, nodeElements } from "./layout.ts";
import type { Chain, Element, Slots } from "./objects.ts";
import { alwaysThere, type TableSet } from "./sets.ts";
import { TableText } from "./table_text.ts";
import { weightOf } from "./weight.ts";

/** What the kernel holds once it has taken a full script. Who applies it goes on from these maps. */
export interface TableContents {
  /** Length of the script. */
  readonly bytes: number;
  readonly operations: number;
  /** As in `References`. */
  readonly references: Map<string, number>;
  /** By set or map, how many elements it has. */
  readonly elements: Map<string, number>;
  /** By chain that services share, how many rules it has; by set or map, 0. */
  readonly rules: Map<string, number>;
  /** The sets of clients of session affinity. */
  readonly affinitySets: readonly TableSet[];
}

/** Services whose part is worked out at one go. */
const BATCH = 16;
/** The same for Services with many elements, by `weightOf`. */
const BATCH_WEIGHT = 250;

/** Services. */
const LONG = 5_000;

/** A state as objects of the table, slots apart, with what is known of them. */
export interface TableObjects {
  readonly sets: readonly TableSet[];
  readonly chains: readonly Chain[];
  /** All but slots. */
  readonly elements: readonly Element[];
  readonly slots: readonly Slots[];
  readonly references: Map<string, number>;
  readonly elementCounts: Map<string, number>;
}

/**
 * Weight of the Services of one portion: 25,000 elements, for which nft takes 53 MB. Portions of 50,000 take
 * a tenth more of its time, and the first one is there later. Where a portion ends depends on the Services alone,
 * so it is known beforehand how many there are.
 */
export const PORTION_WEIGHT = 25_000;

/** The way from nothing to a state, which later changes of that state do not touch. */
export class FullScript implements Script {
  /** @inheritdoc */
  readonly kind = "full";
  readonly #node: DesiredNode;
  readonly #byName: readonly (readonly [string, ServicePorts])[];
  readonly #portionWeight: number;
  #sorted: readonly ServicePorts[] | undefined;
  #cut: readonly (readonly ServicePorts[])[] | undefined;
  #contents: TableContents | undefined;

  /**
   * @param state what the kernel is to hold
   * @param options `portionWeight`: of the Services of one portion
   */
  constructor(
    { node, services }: DesiredState,
    { portionWeight = PORTION_WEIGHT }: { readonly portionWeight?: number | undefined } = {},
  ) {
    this.#node = node;
    this.#portionWeight = portionWeight;
    this.#byName = [...services];
  }

  /** Whether there are so many Services that only to look at them all takes a moment. */
  get isLong(): boolean {
    return this.#byName.length > LONG;
  }

  /** In the order of their names. */
  *#inOrder(): Generator<undefined, readonly ServicePorts[]> {
    return this.#sorted ??= (yield* sortingByKey(this.#byName)).map(([, ports]) => ports);
  }

  /** Whether there can be clients of session affinity. */
  get hasAffinity(): boolean {
    return this.#byName.some(([, ports]) => ports.some((port) => port.affinitySeconds > 0));
  }

  /** @inheritdoc */
  get text(): string {
    return [...this.pieces()].join("");
  }

  /** @inheritdoc */
  get bytes(): number {
    return this.contents.bytes;
  }

  /** @inheritdoc */
  get operations(): number {
    return this.contents.operations;
  }

  /** How many transactions `portions` gives. */
  get portionCount(): number {
    return atOnce(this.cutting()).length;
  }

  /** What is known when all pieces have been read, which is done now where no reader has. */
  get contents(): TableContents {
    if (this.#contents !== undefined) return this.#contents;
    const pieces = this.pieces();
    for (;;) {
      const { done, value } = pieces.next();
      if (done) return value;
    }
  }

  /**
   * The text, each piece worked out when it is asked for. Cut off between two of them it is no
   * valid script: the last one closes the table.
   *
   * @param prologue commands that go before ours, with the first piece
   */
  *pieces(prologue = ""): Generator<string, TableContents> {
    const table = new TableText(this.#node);
    const references = new Map<string, number>();
    let before = prologue;
    let bytes = 0;
    for (const piece of this.#write(table, references)) {
      bytes += piece.length;
      yield before + piece;
      before = "";
    }
    return this.#finish(table, { bytes, references });
  }

  /**
   * The same as transactions, none of which takes much memory: all but the last one lead no packet
   * anywhere. For a kernel in which no packet meets the table.
   *
   * @yields `undefined` while the next one is worked out: then other work can be done
   */
  *portions(): Generator<string | undefined, TableContents> {
    const table = new TableText(this.#node);
    const references = new Map<string, number>();
    let bytes = 0;
    const portions = atOnce(this.cutting());
    let left = portions.length;
    for (const services of portions) {
      for (const batch of batches(services)) {
        this.#add(batch, { table, references });
        yield undefined;
      }
      const text = --left === 0 ? table.lastPortion() : table.portion();
      bytes += text.length;
      yield text;
    }
    return this.#finish(table, { bytes, references });
  }

  /**
   * The same as objects, slots apart.
   *
   * @yields where other work can be done
   */
  *objects(): Generator<undefined, TableObjects> {
    const sets = [...alwaysThere(this.#node)];
    const chains = fixedChains(this.#node);
    const elements = nodeElements(this.#node);
    const slots: Slots[] = [];
    const references = new Map<string, number>();
    const elementCounts = new Map<string, number>();
    const count = ({ name }: TableSet, more: number) =>
      elementCounts.set(name, (elementCounts.get(name) ?? 0) + more);
    for (const { set } of elements) count(set, 1);
    for (const batch of batches(yield* this.#inOrder())) {
      const { operations } = this.#gather(batch, references);
      sets.push(...operations.addSets);
      chains.push(...operations.addChains);
      elements.push(...operations.addElements);
      slots.push(...operations.addSlots);
      for (const { set } of operations.addElements) count(set, 1);
      for (const { set, destinations } of operations.addSlots) count(set, destinations.length);
      yield undefined;
    }
    return { sets, chains, elements, slots, references, elementCounts };
  }

  /** Takes over what is known where the kernel came to the state without this text. */
  reached(objects: TableObjects, written: Pick<TableContents, "bytes" | "operations">): void {
    const { sets, chains, references, elementCounts } = objects;
    const fixed = new Set(fixedChains(this.#node).map(({ name }) => name));
    this.#contents = {
      ...written,
      references,
      elements: elementCounts,
      rules: new Map([
        ...sets.map(({ name }) => [name, 0] as const),
        ...chains.filter(({ name }) => !fixed.has(name))
          .map(({ name, rules }) => [name, rules.length] as const),
      ]),
      affinitySets: sets.filter(({ role }) => role === "affinityClients"),
    };
  }

  *#write(table: TableText, references: Map<string, number>): Generator<string, void> {
    yield table.begin();
    for (const batch of batches(atOnce(this.#inOrder()))) {
      this.#add(batch, { table, references });
      yield* table.longSets();
    }
    yield table.end();
  }

  #add(
    batch: readonly ServicePorts[],
    { table, references }: {
      readonly table: TableText;
      readonly references: Map<string, number>;
    },
  ): void {
    table.add(this.#gather(batch, references).operations);
  }

  #gather(
    batch: readonly ServicePorts[],
    references: Map<string, number>,
  ): Difference<GatheredOperations> {
    const changes = batch.map((after) => ({ before: [], after }));
    const difference = atOnce(gatheringServices(changes, { node: this.#node, references }));
    for (const [id, count] of difference.references) references.set(id, count);
    return difference;
  }

  #finish(
    { operations, elements, rules, sets }: TableText,
    known: Pick<TableContents, "bytes" | "references">,
  ): TableContents {
    const affinitySets = sets.filter(({ role }) => role === "affinityClients");
    return this.#contents = { ...known, operations, elements, rules, affinitySets };
  }

  /**
   * The Services of each portion; at least one portion.
   *
   * @yields where other work can be done
   */
  *cutting(): Generator<undefined, readonly (readonly ServicePorts[])[]> {
    if (this.#cut) return this.#cut;
    const services = yield* this.#inOrder();
    const cut: (readonly ServicePorts[])[] = [];
    let start = 0;
    let weight = 0;
    for (const [i, ports] of services.entries()) {
      if (i % LONG === 0) yield;
      weight += weightOf(ports);
      if (weight < this.#portionWeight) continue;
      cut.push(services.slice(start, i + 1));
      [start, weight] = [i + 1, 0];
    }
    if (start < services.length || start === 0) cut.push(services.slice(start));
    return this.#cut = cut;
  }
}

/** The ports of one Service. */
type ServicePorts = readonly DesiredServicePort[];

function* batches(services: readonly ServicePorts[]): Generator<readonly ServicePorts[]> {
  let batch: ServicePorts[] = [];
  let weight = 0;
  for (const ports of services) {
    batch.push(ports);
    weight += weightOf(ports);
    if (batch.length < BATCH && weight < BATCH_WEIGHT) continue;
    yield batch;
    [batch, weight] = [[], 0];
  }
  if (batch.length > 0) yield batch;
}
