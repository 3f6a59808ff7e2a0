/**
 * The script that replaces the table, made while `nft` reads it.
 *
 * @module
 */
import { append } from "../../../model/values/lists.ts";
import type { Script } from "../../../model/kernel/dataplane.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
  StreamedState,
} from "../../../model/kernel/desired.ts";
import { atOnce, sortingByKey } from "../../../model/ports/in_turns.ts";
import { type Difference, type GatheredOperations, gatheringServices } from "./diff.ts";
import { fixedChains, nodeElements } from "./layout.ts";
import type { Chain, Element, ObjectId, Slots } from "./objects.ts";
import { alwaysThere, type TableSet } from "./sets.ts";
import { TableText } from "./table_text.ts";
import { weightOf } from "./weight.ts";

/** What the kernel holds once it has taken a full script. Who applies it goes on from these maps. */
export interface TableContents {
  /** Length of the script. */
  readonly bytes: number;
  readonly operations: number;
  /** As in `References`. */
  readonly references: Map<ObjectId, number>;
  /** By set or map, how many elements it has. */
  readonly elements: Map<string, number>;
  /** By chain that services share, how many rules it has; by set or map, 0. */
  readonly rules: Map<string, number>;
  /** The sets of clients of session affinity. */
  readonly affinitySets: readonly TableSet[];
}

/** Services. */
const LONG = 5_000;

/** A state as objects of the table, slots apart, with what is known of them. */
export interface TableObjects {
  readonly sets: readonly TableSet[];
  readonly chains: readonly Chain[];
  /** All but slots, by set. */
  readonly elements: ReadonlyMap<string, readonly Element[]>;
  readonly slots: readonly Slots[];
  readonly references: Map<ObjectId, number>;
  readonly elementCounts: Map<string, number>;
}

/** A transaction of a table that is written in several. */
export interface Portion {
  readonly text: string;
  /** From then on packets meet the table. */
  readonly isLast: boolean;
  /** The number of portions: an estimate by the number of Services until the last one. */
  readonly of: number;
}

/**
 * Weight of the Services of one portion: 25,000 elements, for which nft takes 53 MB. Portions of 50,000 take
 * a tenth more of its time, and the first one is there later.
 */
export const PORTION_WEIGHT = 25_000;

/** The way from nothing to a state, which later changes of that state do not touch. */
export class FullScript implements Script {
  /** @inheritdoc */
  readonly kind = "full";
  readonly #node: DesiredNode;
  readonly #services: ServiceBatches;
  readonly #portionWeight: number;
  #contents: TableContents | undefined;

  /**
   * @param state what the kernel is to hold; Services of a stream are asked for when they are needed
   * @param options `portionWeight`: of the Services of one portion
   */
  constructor(
    state: DesiredState | StreamedState,
    { portionWeight = PORTION_WEIGHT }: { readonly portionWeight?: number | undefined } = {},
  ) {
    this.#node = state.node;
    this.#portionWeight = portionWeight;
    this.#services = new ServiceBatches("size" in state ? state : state.services);
  }

  /** Returns true if a look at all Services takes a moment. */
  get isLong(): boolean {
    return this.#services.size > LONG;
  }

  /**
   * True if it is more than one portion; of a stream, no more Services are asked for than it takes to know.
   *
   * @yields where other work can be done
   */
  *exceedingPortion(): Generator<undefined, boolean> {
    let count = 0;
    let weight = 0;
    for (const batch of this.#batches()) {
      if (batch === undefined) {
        yield;
        continue;
      }
      count += batch.services.length;
      weight += batch.weight;
      if (weight >= this.#portionWeight) return count < this.#services.size;
    }
    return false;
  }

  /**
   * Asks for all Services of a stream.
   *
   * @yields where other work can be done
   * @returns whether there can be clients of session affinity
   */
  *reading(): Generator<undefined, boolean> {
    let hasAffinity = false;
    for (const ports of this.#services.all()) {
      if (ports === undefined) yield;
      else hasAffinity ||= ports.some((port) => port.affinitySeconds > 0);
    }
    return hasAffinity;
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
    const references = new Map<ObjectId, number>();
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
  *portions(): Generator<Portion | undefined, TableContents> {
    const { size } = this.#services;
    const table = new TableText(this.#node);
    const references = new Map<ObjectId, number>();
    let [number, bytes, weight, count] = [1, 0, 0, 0];
    for (const batch of this.#batches()) {
      yield undefined;
      if (batch === undefined) continue;
      this.#add(batch, { table, references });
      weight += batch.weight;
      count += batch.services.length;
      if (weight < this.#portionWeight || count === size) continue;
      const text = table.portion();
      bytes += text.length;
      const of = Math.max(number + 1, Math.ceil(number * size / count));
      yield { text, isLast: false, of };
      number++;
      weight = 0;
    }
    const text = table.lastPortion();
    bytes += text.length;
    yield { text, isLast: true, of: number };
    return this.#finish(table, { bytes, references });
  }

  #batches(): Generator<Batch | undefined, void> {
    return this.#services.batches(this.#portionWeight);
  }

  /**
   * The same as objects, slots apart.
   *
   * @yields where other work can be done
   */
  *objects(): Generator<undefined, TableObjects> {
    const sets = [...alwaysThere(this.#node)];
    const chains = fixedChains(this.#node);
    const elements = new Map<string, Element[]>();
    const slots: Slots[] = [];
    const references = new Map<ObjectId, number>();
    const elementCounts = new Map<string, number>();
    const count = ({ name }: TableSet, more: number) =>
      elementCounts.set(name, (elementCounts.get(name) ?? 0) + more);
    const add = (element: Element) => {
      const { set } = element;
      count(set, 1);
      const known = elements.get(set.name);
      if (known) known.push(element);
      else elements.set(set.name, [element]);
    };
    for (const element of nodeElements(this.#node)) add(element);
    for (const batch of this.#services.batches()) {
      yield undefined;
      if (batch === undefined) continue;
      const { operations } = this.#gather(batch, references);
      append(sets, operations.addSets);
      append(chains, operations.addChains);
      append(slots, operations.addSlots);
      for (const element of operations.addElements) add(element);
      for (const { set, destinations } of operations.addSlots) count(set, destinations.length);
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

  *#write(table: TableText, references: Map<ObjectId, number>): Generator<string, void> {
    yield table.begin();
    for (const batch of this.#services.batches()) {
      if (batch === undefined) continue;
      this.#add(batch, { table, references });
      yield* table.longSets();
    }
    yield table.end();
  }

  #add(
    batch: Batch,
    { table, references }: {
      readonly table: TableText;
      readonly references: Map<ObjectId, number>;
    },
  ): void {
    table.add(this.#gather(batch, references).operations);
  }

  #gather(
    { services }: Batch,
    references: Map<ObjectId, number>,
  ): Difference<GatheredOperations> {
    const changes = services.map((after) => ({ before: [], after }));
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
}

/** The ports of one Service. */
export type ServicePorts = readonly DesiredServicePort[];

/** Some Services that go into a script together. */
export interface Batch {
  readonly services: readonly ServicePorts[];
  /** By `weightOf`. */
  readonly weight: number;
}

/** Services whose part is worked out at one go. */
const BATCH = 16;
/** Limits a batch of Services with many elements, by `weightOf`. */
const BATCH_WEIGHT = 250;

/** Gives the Services of a state in the order of their names. Each is read of the stream when it is first needed. */
class ServiceBatches {
  readonly #known: ServicePorts[] = [];
  readonly #rest: StreamedState["services"];
  /** How many there are, and will be. */
  readonly size: number;

  /** @param services of a stream, or of a complete state: what becomes of that later does not count */
  constructor(services: Pick<StreamedState, "services" | "size"> | DesiredState["services"]) {
    this.size = services.size;
    this.#rest = "services" in services ? services.services : sorted([...services]);
  }

  /**
   * Yields all Services, from the beginning at each call.
   *
   * @yields `undefined` where other work can be done
   */
  *all(): Generator<ServicePorts | undefined, void> {
    for (let i = 0;;) {
      const known = this.#known[i] ?? this.#next();
      if (known === "end") return;
      if (known) i++;
      yield known;
    }
  }

  /**
   * Yields all Services in batches.
   *
   * @param most a batch ends where it weighs as much
   */
  *batches(most = BATCH_WEIGHT): Generator<Batch | undefined, void> {
    let services: ServicePorts[] = [];
    let weight = 0;
    for (const ports of this.all()) {
      if (ports === undefined) {
        yield undefined;
        continue;
      }
      services.push(ports);
      weight += weightOf(ports);
      if (services.length < BATCH && weight < Math.min(most, BATCH_WEIGHT)) continue;
      yield { services, weight };
      [services, weight] = [[], 0];
    }
    if (services.length > 0) yield { services, weight };
  }

  #next(): ServicePorts | "end" | undefined {
    const { done, value } = this.#rest.next();
    if (done) return "end";
    if (value) this.#known.push(value);
    return value;
  }
}

function* sorted(
  byName: readonly (readonly [string, ServicePorts])[],
): Generator<ServicePorts | undefined, void> {
  for (const named of sortingByKey(byName)) yield named?.[1];
}
