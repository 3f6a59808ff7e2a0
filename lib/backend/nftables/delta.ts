/** Compares service ports before and after a change, and returns what to add to the table and to delete. */
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
  ServiceChange,
  StateChange,
} from "../../model/kernel/desired.ts";
import { slotsFor } from "../../model/cluster/scheduler.ts";
import { portKey, portsByKey } from "../../policy/endpoints.ts";
import { chunks } from "../../model/values/lists.ts";
import { fixedSets, type TableSet } from "./sets.ts";
import { fixedChains, nodeElements } from "./layout.ts";
import {
  type Chain,
  type ChainRewrite,
  type Element,
  type Entry,
  frontendOf,
  hasSameContent,
  type ObjectId,
  objectId,
  type References,
  sizeOf,
  slotData,
  slotElement,
  type Slots,
  type Table,
  type TableObject,
} from "./table.ts";
import { objectsOf } from "./service.ts";

/** Describes a change of the table, in the order of the Services. */
export interface Delta {
  readonly addSets: readonly TableSet[];
  readonly addChains: readonly Chain[];
  readonly rewriteChains: readonly ChainRewrite[];
  readonly deleteElements: readonly Entry[];
  readonly addElements: readonly Entry[];
  readonly deleteChains: readonly Pick<Chain, "name">[];
  readonly deleteSets: readonly Pick<TableSet, "kind" | "name">[];
  /** The new counts of shared objects whose count changes; 0: the object goes. */
  readonly references: References;
}

export const NOTHING: Delta = {
  addSets: [],
  addChains: [],
  rewriteChains: [],
  deleteElements: [],
  addElements: [],
  deleteChains: [],
  deleteSets: [],
  references: new Map(),
};

export function countOperations(delta: Delta): number {
  return countElements(delta) + delta.addSets.length + delta.addChains.length +
    delta.rewriteChains.length + delta.deleteChains.length + delta.deleteSets.length;
}

export function countElements({ addElements, deleteElements }: FrontendChange): number {
  const sum = (entries: readonly Entry[]) => entries.reduce((all, each) => all + sizeOf(each), 0);
  return sum(addElements) + sum(deleteElements);
}

/** Counts the references, elements and rules of the written table. */
export class Counts {
  readonly references = new Map<ObjectId, number>();
  readonly elements = new Map<string, number>();
  /** The number of rules of each chain; 0 for each set and map. */
  readonly rules = new Map<string, number>();

  add(delta: Delta): void {
    for (const [id, count] of delta.references) setCount(this.references, id, count);
    for (const each of delta.deleteElements) this.#countElements(each.set.name, -sizeOf(each));
    for (const each of delta.addElements) this.#countElements(each.set.name, sizeOf(each));
    for (const { name } of delta.deleteChains) this.rules.delete(name);
    for (const { name } of delta.deleteSets) {
      this.rules.delete(name);
      this.elements.delete(name);
    }
    for (const { name } of delta.addSets) this.rules.set(name, 0);
    for (const { name, rules } of delta.addChains) this.rules.set(name, rules.length);
    for (const { after: { name, rules } } of delta.rewriteChains) {
      this.rules.set(name, rules.length);
    }
  }

  #countElements(set: string, more: number): void {
    setCount(this.elements, set, (this.elements.get(set) ?? 0) + more);
  }
}

function setCount<K>(counts: Map<K, number>, key: K, count: number): void {
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}

interface DiffOptions {
  readonly node: DesiredNode;
  readonly nodeChange?: StateChange["node"];
  readonly references: References;
}

/** Returns the delta of some Services. Its time depends on the changed ports alone. @yields when other work can run */
export function* diffing(
  changes: Iterable<ServiceChange>,
  { node, nodeChange, references }: DiffOptions,
): Generator<undefined, Delta> {
  const collector = new Collector();
  for (const { before, after } of changes) {
    if (before === after) continue;
    yield;
    const old = portsByKey(before);
    for (const port of after) {
      const key = old.size === 0 ? "" : portKey(port, port.family);
      const last = old.get(key);
      old.delete(key);
      if (last === port) continue;
      collector.compare(last ? objectsOf(last, node) : [], objectsOf(port, node));
      yield;
    }
    for (const port of old.values()) collector.compare(objectsOf(port, node), []);
  }
  if (nodeChange) {
    collector.compare(nodeElements(nodeChange.before), nodeElements(nodeChange.after));
  }
  return collector.finish(references);
}

type ServicePorts = readonly DesiredServicePort[];

/** Returns the Services of a state in the order of their names. */
export function sorted(services: DesiredState["services"]): readonly ServicePorts[] {
  return [...services].sort(([a], [b]) => a < b ? -1 : 1).map(([, ports]) => ports);
}

/** Returns the complete table of a state, which must not change before the end. @yields when other work can run */
export function* tableOf({ node, services }: DesiredState): Generator<undefined, Table> {
  const changes = sorted(services).map((after) => ({ before: [], after }));
  const delta = yield* diffing(changes, { node, references: new Map() });
  return {
    sets: [...fixedSets(node), ...delta.addSets],
    chains: [...delta.addChains, ...fixedChains(node)],
    elements: [...nodeElements(node), ...delta.addElements],
    references: delta.references,
  };
}

/** The weight in elements of a client set and a chain of session affinity: nft takes as much memory. */
const AFFINITY_WEIGHT = 10;

/** Estimates the number of elements: a slot of each frontend for each endpoint, and source ranges. */
export function weightOf(ports: readonly DesiredServicePort[]): number {
  let weight = 0;
  for (const port of ports) {
    const { clusterIPs, loadBalancerIPs, externalIPs, nodePort, sourceRanges } = port;
    const frontends = clusterIPs.length + loadBalancerIPs.length + externalIPs.length +
      (nodePort === 0 ? 0 : 1);
    const endpoints = slotsFor(port.clusterEndpoints.length, port.scheduler) +
      slotsFor(port.localEndpoints.length, port.scheduler);
    const each = port.affinitySeconds > 0 ? AFFINITY_WEIGHT : frontends;
    weight += (port.accelerated ? 2 : 1) * frontends + clusterIPs.length + each * endpoints +
      loadBalancerIPs.length * sourceRanges.length;
  }
  return weight;
}

type FrontendChange = Pick<Delta, "addElements" | "deleteElements">;

/**
 * Cuts a change of more than `most` elements: new chains and sets, elements, common chains, deletions. All elements
 * of a frontend are in one part. So old maps stay until new maps are full. @yields parts, some of them empty
 */
export function* partsOf(delta: Delta, most: number): Generator<Delta, void> {
  if (countElements(delta) <= most) return yield delta;
  const { addSets, addChains, rewriteChains, deleteChains, deleteSets } = delta;
  const rewritten = (isCommon: boolean) =>
    rewriteChains.filter(({ after }) => (after.isCommon ?? false) === isCommon);
  yield { ...NOTHING, addSets, addChains, rewriteChains: rewritten(false) };
  for (const chunk of chunks(byFrontend(delta).values(), { weigh: countElements, most })) {
    yield {
      ...NOTHING,
      addElements: chunk.flatMap(({ addElements }) => addElements),
      deleteElements: chunk.flatMap(({ deleteElements }) => deleteElements),
    };
  }
  yield { ...NOTHING, rewriteChains: rewritten(true) };
  yield { ...NOTHING, deleteChains, deleteSets };
}

function byFrontend(
  { addElements, deleteElements }: Delta,
): ReadonlyMap<string, FrontendChange> {
  const changes = new Map<string, { addElements: Entry[]; deleteElements: Entry[] }>();
  const changeOf = (entry: Entry) => {
    const name = frontendOf(entry);
    const known = changes.get(name) ?? { addElements: [], deleteElements: [] };
    changes.set(name, known);
    return known;
  };
  for (const each of deleteElements) changeOf(each).deleteElements.push(each);
  for (const each of addElements) changeOf(each).addElements.push(each);
  return changes;
}

function byId(objects: readonly TableObject[]): ReadonlyMap<ObjectId, TableObject> {
  return new Map(objects.map((each) => [objectId(each), each]));
}

/** An object that several Services may need. */
type SharedObject = Element | Chain | TableSet;

/** Collects the steps of a delta. Shared objects are counted, and `finish` decides about them. */
class Collector {
  readonly #addSlots: Slots[] = [];
  readonly #addElements: Element[] = [];
  readonly #deleteElements: Entry[] = [];
  readonly #rewriteChains: ChainRewrite[] = [];
  readonly #shared = new Map<ObjectId, { readonly object: SharedObject; count: number }>();

  compare(before: readonly TableObject[], after: readonly TableObject[]): void {
    if (before.length === 0) return this.#addNew(after);
    const [old, wanted] = [byId(before), byId(after)];
    for (const [id, object] of old) if (!wanted.has(id)) this.#remove(id, object);
    for (const [id, object] of wanted) {
      const previous = old.get(id);
      if (previous?.type === "slots" && object.type === "slots") this.#moveSlots(previous, object);
      else if (previous && hasSameContent(previous, object)) continue;
      else if (previous?.type === "chain" && object.type === "chain") {
        this.#rewriteChains.push({ before: previous, after: object });
      } else {
        if (previous) this.#remove(id, previous);
        if (isOwn(object)) this.#addOwn(object);
        else this.#count(id, object, 1);
      }
    }
  }

  /** Adds new objects. Only shared objects get an id: V8 walks all keys of a map in every garbage collection. */
  #addNew(objects: readonly TableObject[]): void {
    const shared = new Map<ObjectId, SharedObject>();
    for (const each of objects) {
      if (isOwn(each)) this.#addOwn(each);
      else shared.set(objectId(each), each);
    }
    for (const [id, object] of shared) this.#count(id, object, 1);
  }

  #addOwn(object: Entry): void {
    if (object.type === "slots") this.#addSlots.push(object);
    else this.#addElements.push(object);
  }

  #remove(id: ObjectId, object: TableObject): void {
    if (isOwn(object)) this.#deleteElements.push(object);
    else this.#count(id, object, -1);
  }

  finish(applied: References): Delta {
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
    return {
      addSets: appeared.filter((each) => each.type === "set"),
      addChains: appeared.filter((each) => each.type === "chain"),
      rewriteChains: this.#rewriteChains,
      deleteElements: [
        ...this.#deleteElements,
        ...vanished.filter((each) => each.type === "element"),
      ],
      addElements: [
        ...this.#addSlots,
        ...this.#addElements,
        ...appeared.filter((each) => each.type === "element"),
      ],
      deleteChains: vanished.filter((each) => each.type === "chain"),
      deleteSets: vanished.filter((each) => each.type === "set"),
      references,
    };
  }

  #count(id: ObjectId, object: SharedObject, step: 1 | -1): void {
    const known = this.#shared.get(id);
    if (known) known.count += step;
    else this.#shared.set(id, { object, count: step });
  }

  #moveSlots(before: Slots, after: Slots): void {
    const [old, wanted] = [before.destinations, after.destinations];
    for (let slot = 0; slot < Math.max(old.length, wanted.length); slot++) {
      const was = old[slot];
      const is = wanted[slot];
      if (was && is && was.address === is.address && was.port === is.port) continue;
      if (was) this.#deleteElements.push(slotElement(before, slot, slotData(was)));
      if (is) this.#addElements.push(slotElement(after, slot, slotData(is)));
    }
  }
}

/** Returns true for slots, and for an element that does not belong to several service ports. */
function isOwn(object: TableObject): object is Entry {
  return object.type === "slots" ||
    object.type === "element" && object.set.filledBy !== "services";
}
