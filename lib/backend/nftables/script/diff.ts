/**
 * The step from one set of service ports to another, as operations on the table.
 *
 * @module
 */
import type {
  DesiredNode,
  DesiredServicePort,
  ServiceChange,
} from "../../../model/kernel/desired.ts";
import {
  type Chain,
  type ChainRole,
  type Element,
  element,
  type ObjectId,
  objectId,
  sameContent,
  slotData,
  type Slots,
  type TableObject,
} from "./objects.ts";
import { objectsOf } from "./service.ts";
import type { TableSet } from "./sets.ts";
import { weightOf } from "./weight.ts";

/** An object that several services may need: it is there while one of them does. */
type SharedObject = Element | Chain | TableSet;

/** How many services need each shared object, by id. */
export type References = ReadonlyMap<ObjectId, number>;

/** A chain before and after. */
export interface ChainRewrite {
  readonly before: Chain;
  readonly after: Chain;
}

/** What has to be done to the table. Within each list the order is that of the services. */
export interface Operations {
  readonly addSets: readonly TableSet[];
  readonly addChains: readonly Chain[];
  /** Chains that stay and get other rules. */
  readonly rewriteChains: readonly ChainRewrite[];
  readonly deleteElements: readonly Element[];
  readonly addElements: readonly Element[];
  readonly deleteChains: readonly Chain[];
  readonly deleteSets: readonly Pick<TableSet, "kind" | "name">[];
}

/** Operations with the slots that are all new apart: as elements, a large cluster's take much memory. */
export interface GatheredOperations extends Operations {
  /** By frontend, the slots that are not among `addElements`. */
  readonly addSlots: readonly Slots[];
}

/** Operations, and the references that hold once they are done. */
export interface Difference<O = Operations> {
  readonly operations: O;
  /** New counts of the objects whose count changed; 0: gone. */
  readonly references: References;
}

/** What the differ needs to know besides the changes. */
export interface DiffOptions {
  /** The same before and after: where the node changes, everything is written again. */
  readonly node: DesiredNode;
  /** Of the state that was applied last; empty for a full script. */
  readonly references: References;
}

/** Objects that are worked out at one go. */
const BATCH = 200;

/**
 * Works out the operations for some services' changes; its work follows their size alone.
 *
 * @yields where other work can be done
 */
export function* diffingServices(
  changes: Iterable<ServiceChange>,
  options: DiffOptions,
): Generator<undefined, Difference> {
  const { operations, references } = yield* gatheringServices(changes, options);
  const { addSlots, ...others } = operations;
  const addElements: Element[] = [];
  let turn = BATCH;
  for (const slots of addSlots) {
    for (const each of slotElements(slots)) addElements.push(each);
    if (addElements.length < turn) continue;
    turn = addElements.length + BATCH;
    yield;
  }
  for (const each of operations.addElements) addElements.push(each);
  return { operations: { ...others, addElements }, references };
}

/** The slots of a frontend as elements. */
function slotElements(slots: Slots): Element[] {
  return slots.destinations.map((destination, slot) => slotElement(slots, slot, destination));
}

/**
 * The same with the slots that are all new apart.
 *
 * @yields where other work can be done
 */
export function* gatheringServices(
  changes: Iterable<ServiceChange>,
  options: DiffOptions,
): Generator<undefined, Difference<GatheredOperations>> {
  const collector = new Collector();
  let weight = 0;
  for (const { before, after } of changes) {
    if (before === after) continue;
    if (weight >= BATCH) {
      weight = 0;
      yield;
    }
    weight += weightOf(before) + weightOf(after);
    if (before.length === 0) {
      collector.addNew(after.flatMap((port) => objectsOf(port, options.node)));
      continue;
    }
    const old = objectsById(before, options.node);
    const wanted = objectsById(after, options.node);
    for (const named of old) {
      if (!wanted.has(named[0])) collector.remove(named);
    }
    for (const named of wanted) {
      const previous = old.get(named[0]);
      if (previous === undefined) collector.add(named);
      else collector.change(previous, named);
    }
  }
  return collector.finish(options.references);
}

function objectsById(
  ports: readonly DesiredServicePort[],
  node: DesiredNode,
): Map<ObjectId, TableObject> {
  const objects = new Map<ObjectId, TableObject>();
  for (const port of ports) {
    for (const object of objectsOf(port, node)) objects.set(objectId(object), object);
  }
  return objects;
}

/** An object and its `objectId`. */
type Named = readonly [id: ObjectId, object: TableObject];

/** Gathers single steps; what is shared is counted and decided at the end. */
class Collector {
  readonly #addElements: Element[] = [];
  readonly #addSlots: Slots[] = [];
  readonly #deleteElements: Element[] = [];
  readonly #rewriteChains: ChainRewrite[] = [];
  readonly #shared = new Map<ObjectId, { readonly object: SharedObject; count: number }>();

  /**
   * Adds the objects of a Service that had none. Only what is shared gets an id: V8 keeps each key of a map
   * in one table, and looks through that in every collection.
   */
  addNew(objects: readonly TableObject[]): void {
    const shared = new Map<ObjectId, SharedObject>();
    for (const each of objects) {
      const object = this.#addOwn(each);
      if (object) shared.set(objectId(object), object);
    }
    for (const [id, object] of shared) this.#count(id, { object, step: 1 });
  }

  add([id, each]: Named): void {
    const object = this.#addOwn(each);
    if (object) this.#count(id, { object, step: 1 });
  }

  /** Adds what one Service alone has. @returns the object, where services share it */
  #addOwn(object: TableObject): SharedObject | undefined {
    if (object.type === "slots") this.#addSlots.push(object);
    else if (isPrivate(object)) this.#addElements.push(object);
    else return object;
    return undefined;
  }

  remove([id, object]: Named): void {
    if (object.type === "slots") this.#writeSlots(object, undefined);
    else if (isPrivate(object)) this.#deleteElements.push(object);
    else this.#count(id, { object, step: -1 });
  }

  change(before: TableObject, [id, after]: Named): void {
    if (after.type === "slots") {
      this.#writeSlots(before.type === "slots" ? before : undefined, after);
    } else if (sameContent(before, after)) {
      return;
    } else if (before.type === "chain" && after.type === "chain") {
      this.#rewriteChains.push({ before, after });
    } else {
      this.remove([id, before]);
      this.add([id, after]);
    }
  }

  finish(applied: References): Difference<GatheredOperations> {
    const references = new Map<ObjectId, number>();
    const appeared: SharedObject[] = [];
    const vanished: SharedObject[] = [];
    for (const [id, { object, count }] of this.#shared) {
      if (count === 0) continue;
      const before = applied.get(id) ?? 0;
      references.set(id, before + count);
      if (before === 0) appeared.push(object);
      else if (before + count === 0) vanished.push(object);
    }
    const operations: GatheredOperations = {
      addSets: appeared.filter((each) => each.type === "set"),
      addChains: appeared.filter((each) => each.type === "chain"),
      rewriteChains: this.#rewriteChains,
      deleteElements: [
        ...this.#deleteElements,
        ...vanished.filter((each) => each.type === "element"),
      ],
      addElements: [...this.#addElements, ...appeared.filter((each) => each.type === "element")],
      addSlots: this.#addSlots,
      deleteChains: vanished.filter((each) => each.type === "chain").sort(jumpersFirst),
      deleteSets: vanished.filter((each) => each.type === "set"),
    };
    return { operations, references };
  }

  #count(
    id: ObjectId,
    { object, step }: { readonly object: SharedObject; readonly step: 1 | -1 },
  ): void {
    const known = this.#shared.get(id);
    if (known) known.count += step;
    else this.#shared.set(id, { object, count: step });
  }

  /** Touches only the slots that differ. */
  #writeSlots(before: Slots | undefined, after: Slots | undefined): void {
    const old = before?.destinations ?? [];
    const wanted = after?.destinations ?? [];
    const frontend = after ?? before;
    if (frontend === undefined) return;
    for (let slot = 0; slot < Math.max(old.length, wanted.length); slot++) {
      const was = old[slot];
      const is = wanted[slot];
      if (was && is && was.address === is.address && was.port === is.port) continue;
      if (was) this.#deleteElements.push(slotElement(frontend, slot, was));
      if (is) this.#addElements.push(slotElement(frontend, slot, is));
    }
  }
}

function slotElement(
  { set, key: frontend }: Pick<Slots, "set" | "key">,
  slot: number,
  destination: Slots["destinations"][number],
): Element {
  return element(set, { type: "slot", frontend, slot }, { data: slotData(destination) });
}

/** Elements that one service port alone can have, because it holds the claim to their key. */
function isPrivate(object: Exclude<TableObject, Slots>): object is Element {
  return object.type === "element" && object.set.filledBy !== "services";
}

/** The kernel deletes a chain only when nothing jumps to it any more. */
const JUMPERS_FIRST: Readonly<Record<ChainRole, number>> = {
  base: 0,
  fixed: 1,
  frontend: 1,
  affinity: 2,
  dnat: 3,
};

function jumpersFirst(a: Chain, b: Chain): number {
  return JUMPERS_FIRST[a.role] - JUMPERS_FIRST[b.role];
}
