/**
 * The endpoint cache: the last good state of every object, and which Services a change touched.
 *
 * Changes coalesce: however many events come, what waits for the next sync is at most one entry
 * for each Service.
 *
 * @module
 */
import type { ObjectEvent, Omission, Refusal, ReplaceEvent } from "../model/cluster/events.ts";
import { objectKey } from "../model/cluster/names.ts";
import {
  type EndpointSlice,
  type Kind,
  type KindMap,
  KINDS,
  type Node,
  type Service,
  type ServiceCIDR,
} from "../model/cluster/objects.ts";
import { atOnce } from "../model/ports/in_turns.ts";
import { FairQueue, type Share } from "./fair_queue.ts";
import { keepKnown } from "./known_node.ts";

/** What changed since the last look. */
export interface Dirty {
  /** `namespace/name` of the Services whose own state or slices changed. */
  readonly services: ReadonlySet<string>;
  /** The Node or the ServiceCIDRs changed. */
  readonly node: boolean;
}

/** A read-only view of the cache. */
export interface Snapshot {
  readonly services: ReadonlyMap<string, Service>;
  /** The slices of a Service, by slice name order of arrival; by the Service's `namespace/name`. */
  slicesOf(service: string): readonly EndpointSlice[];
  /** All slices, by `namespace/name`. */
  readonly slices: ReadonlyMap<string, EndpointSlice>;
  /** This node, with all that was ever known of it; `undefined` where it was never seen. */
  readonly node: Node | undefined;
  readonly serviceCIDRs: ReadonlyMap<string, ServiceCIDR>;
}

/** Objects that are taken in at one go. */
const BATCH = 100;

/** The state of all objects. Events go in through `apply`, which returns what is worth a warning. */
export class ObjectCache implements Snapshot {
  readonly #objects: { readonly [K in Kind]: Map<string, KindMap[K]> } = {
    Service: new Map(),
    EndpointSlice: new Map(),
    Node: new Map(),
    ServiceCIDR: new Map(),
  };
  /** Lists and not maps: nearly all have one entry. */
  readonly #slicesByService = new Map<string, EndpointSlice[]>();
  readonly #refused = new Map<string, Refusal>();
  readonly #omissions = new Map<string, Omission>();
  #newOmissions = new Map<string, Omission>();
  readonly #delivered = new Set<Kind>();
  #isRestored = false;
  readonly #dirtyServices = new FairQueue();
  #dirtyNode = false;
  #node: Node | undefined;

  /** @inheritdoc */
  get services(): ReadonlyMap<string, Service> {
    return this.#objects.Service;
  }

  /** @inheritdoc */
  get slices(): ReadonlyMap<string, EndpointSlice> {
    return this.#objects.EndpointSlice;
  }

  /** @inheritdoc */
  get serviceCIDRs(): ReadonlyMap<string, ServiceCIDR> {
    return this.#objects.ServiceCIDR;
  }

  /** @inheritdoc */
  get node(): Node | undefined {
    return this.#node;
  }

  /** Objects that are refused at present. */
  get refused(): Iterable<Refusal> {
    return this.#refused.values();
  }

  /** The kinds that have not delivered a full state. */
  get missing(): readonly Kind[] {
    return KINDS.filter((kind) => !this.#delivered.has(kind));
  }

  /** What is left out of objects at present. */
  get omissions(): Iterable<Omission> {
    return this.#omissions.values();
  }

  /** Whether every kind has delivered a full state; nothing may be applied before. */
  get complete(): boolean {
    return this.#delivered.size === KINDS.length;
  }

  /** Tells whether all objects are of one state: of the state file, or of complete sources. */
  get consistent(): boolean {
    return this.complete || this.#isRestored && this.#delivered.size === 0;
  }

  /** Whether anything waits for a sync. */
  get isDirty(): boolean {
    return this.#dirtyNode || !this.#dirtyServices.isEmpty;
  }

  /** Tells if a change of a Service waits for a sync, by `namespace/name`. */
  isWaiting(service: string): boolean {
    return this.#dirtyNode || this.#dirtyServices.has(service);
  }

  /** The last good state of an object. */
  get<K extends Kind>(kind: K, key: string): KindMap[K] | undefined {
    return this.#objects[kind].get(key);
  }

  /** @inheritdoc */
  slicesOf(service: string): readonly EndpointSlice[] {
    return this.#slicesByService.get(service) ?? [];
  }

  /**
   * Takes one event in.
   *
   * @returns refusals that are new or changed their reason: each is worth one warning
   */
  apply(event: ObjectEvent): Refusal[] {
    return atOnce(this.applying(event));
  }

  /**
   * The same in turns: a full state may have very many objects. Until the last turn the cache is
   * between two states, and nothing else may be taken in.
   *
   * @yields where other work can be done
   */
  *applying(event: ObjectEvent): Generator<undefined, Refusal[]> {
    switch (event.type) {
      case "replace": {
        const refusals = yield* this.#replace(event);
        this.#delivered.add(event.kind);
        return refusals;
      }
      case "refuse":
        return this.#refuse(event);
      case "delete":
        this.#refused.delete(refusalKey(event));
        this.#set(event.kind, event.key, undefined);
        return [];
      case "upsert":
        this.#refused.delete(refusalKey(event));
        this.#set(event.kind, event.key, event.object);
        return [];
    }
  }

  /**
   * Takes in the objects of a state file, which stand until the sources have delivered.
   *
   * @yields where other work can be done
   */
  *restoring(events: readonly ReplaceEvent[]): Generator<undefined, void> {
    for (const event of events) yield* this.#replace(event);
    this.#isRestored = true;
  }

  /**
   * Takes what changed since it was last taken.
   *
   * @param share bounds what is taken, unless all Services depend on what changed of the node
   */
  takeDirty(share?: Share): Dirty {
    const node = this.#dirtyNode;
    this.#dirtyNode = false;
    return { services: this.#dirtyServices.take(node ? undefined : share), node };
  }

  /** Has Services wait for the next sync, by `namespace/name`. */
  putBack(services: Iterable<string>): void {
    for (const key of services) this.#dirtyServices.add(key);
  }

  /** Omissions that are new or changed since the last call: each is worth one warning. */
  takeOmissions(): readonly Omission[] {
    if (this.#newOmissions.size === 0) return [];
    const omissions = [...this.#newOmissions.values()];
    this.#newOmissions = new Map();
    return omissions;
  }

  *#replace({ kind, objects, refused }: ReplaceEvent): Generator<undefined, Refusal[]> {
    let count = 0;
    for (const key of this.#objects[kind].keys()) {
      if (!objects.has(key) && !refused.has(key)) this.#set(kind, key, undefined);
      if (++count % BATCH === 0) yield;
    }
    for (const [key, object] of objects) {
      this.#set(kind, key, object);
      if (++count % BATCH === 0) yield;
    }
    for (const refusal of this.#refused.values()) {
      if (refusal.kind === kind && !refused.has(refusal.key)) {
        this.#refused.delete(refusalKey(refusal));
      }
    }
    return [...refused].flatMap(([key, reason]) => this.#refuse({ kind, key, reason }));
  }

  #refuse({ kind, key, reason }: Refusal): Refusal[] {
    const refusal = { kind, key, reason };
    const known = this.#refused.get(refusalKey(refusal));
    this.#refused.set(refusalKey(refusal), refusal);
    return known?.reason === reason ? [] : [refusal];
  }

  /** Stores or removes one object and marks what depends on it. */
  #set(kind: Kind, key: string, object: KindMap[Kind] | undefined): void {
    const objects: Map<string, KindMap[Kind]> = this.#objects[kind];
    const previous = objects.get(key);
    if (previous === object) return;
    if (object === undefined) objects.delete(key);
    else objects.set(key, object);
    if (previous?.omitted ?? object?.omitted) this.#omit({ kind, key, object });
    if (kind === "Service") this.#dirtyServices.add(key);
    else if (kind === "EndpointSlice") {
      if (previous) this.#unindexSlice(previous as EndpointSlice);
      if (object) this.#indexSlice(object as EndpointSlice);
    } else if (kind === "Node") {
      if (object === undefined) return;
      this.#node = keepKnown(object as Node, this.#node);
      this.#dirtyNode = true;
    } else this.#dirtyNode = true;
  }

  /** Keeps what is left out of an object as it is now. */
  #omit(
    { kind, key, object }: {
      readonly kind: Kind;
      readonly key: string;
      readonly object: KindMap[Kind] | undefined;
    },
  ): void {
    const id = refusalKey({ kind, key });
    const known = this.#omissions.get(id);
    const reason = object?.omitted?.join("; ");
    if (reason === known?.reason) return;
    this.#omissions.delete(id);
    this.#newOmissions.delete(id);
    if (reason === undefined) return;
    this.#omissions.set(id, { kind, key, reason });
    this.#newOmissions.set(id, { kind, key, reason });
  }

  #indexSlice(slice: EndpointSlice): void {
    const service = serviceOf(slice);
    this.#dirtyServices.add(service);
    const slices = this.#slicesByService.get(service);
    // Lists of one slice are many, and `push` makes room for 17 (V8).
    if (slices === undefined) this.#slicesByService.set(service, [slice]);
    else if (slices.length === 1) this.#slicesByService.set(service, [...slices, slice]);
    else slices.push(slice);
  }

  #unindexSlice(slice: EndpointSlice): void {
    const service = serviceOf(slice);
    this.#dirtyServices.add(service);
    const slices = this.#slicesByService.get(service) ?? [];
    const place = slices.indexOf(slice);
    const last = slices.pop();
    if (last !== undefined && last !== slice) slices[place] = last;
    if (slices.length === 0) this.#slicesByService.delete(service);
  }
}

/** The `namespace/name` of a slice's Service. */
function serviceOf({ namespace, serviceName }: EndpointSlice): string {
  return objectKey({ namespace, name: serviceName });
}

function refusalKey({ kind, key }: { readonly kind: Kind; readonly key: string }): string {
  return `${kind} ${key}`;
}
