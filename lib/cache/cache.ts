/** Keeps the last good state of every object, and the Services that changes concern. */
import {
  type EndpointSlice,
  type Kind,
  type KindMap,
  KINDS,
  type Node,
  type ObjectChange,
  type ObjectEvent,
  type Refusal,
  type ReplaceEvent,
  type Service,
  type ServiceCIDR,
} from "../model/cluster/objects.ts";
import { objectKey, splitKey } from "../model/cluster/names.ts";
import type { StateObjects } from "../source/saved/format.ts";
import { append } from "../model/values/lists.ts";
import { sameValue } from "../model/values/record.ts";
import { atOnce } from "../model/ports/in_turns.ts";

export interface Dirty {
  /** `namespace/name` of the Services that changed, or whose slices changed. */
  readonly services: ReadonlySet<string>;
  /** True if the Node, the ServiceCIDRs or the machine's addresses changed. */
  readonly node: boolean;
}

export interface Snapshot extends StateObjects {
  /** Returns the slices of a Service (`namespace/name`) by their names. */
  slicesOf(service: string): readonly EndpointSlice[];
}

/** Stores the state of all objects, by `namespace/name`. */
export class ObjectCache implements Snapshot {
  readonly #objects: { readonly [K in Kind]: Map<string, KindMap[K]> } = {
    Service: new Map(),
    EndpointSlice: new Map(),
    Node: new Map(),
    ServiceCIDR: new Map(),
  };
  readonly services: ReadonlyMap<string, Service> = this.#objects.Service;
  readonly slices: ReadonlyMap<string, EndpointSlice> = this.#objects.EndpointSlice;
  readonly serviceCIDRs: ReadonlyMap<string, ServiceCIDR> = this.#objects.ServiceCIDR;
  /** Lists, since nearly all have one entry. Sorted lists took 50 s for 100,000 slices of one Service. */
  readonly #slicesByService = new Map<string, EndpointSlice[]>();
  readonly #refused = new Map<string, Refusal>();
  readonly #newOmissions: Refusal[] = [];
  readonly #delivered = new Set<Kind>();
  #isRestored = false;
  readonly #dirtyServices = new FairQueue();
  /** True at first: the machine has addresses before objects name them. */
  #dirtyNode = true;
  #node: Node | undefined;

  get node(): Node | undefined {
    return this.#node;
  }

  get refused(): Iterable<Refusal> {
    return this.#refused.values();
  }

  /** Returns an object that was refused for lack of memory, or `undefined`. */
  get excess(): Refusal | undefined {
    return this.#refused.values().find(({ isExcess }) => isExcess);
  }

  get missing(): readonly Kind[] {
    return KINDS.filter((kind) => !this.#delivered.has(kind));
  }

  /** Returns true if every kind has delivered a full state. Nothing may be applied before. */
  get complete(): boolean {
    return this.#delivered.size === KINDS.length;
  }

  /** Returns true if all objects are of one state: of the state file, or of complete sources. */
  get consistent(): boolean {
    return this.complete || this.#isRestored && this.#delivered.size === 0;
  }

  get isDirty(): boolean {
    return this.#dirtyNode || !this.#dirtyServices.isEmpty;
  }

  isWaiting(service: string): boolean {
    return this.#dirtyNode || this.#dirtyServices.has(service);
  }

  slicesOf(service: string): readonly EndpointSlice[] {
    const slices = this.#slicesByService.get(service) ?? [];
    return slices.toSorted((a, b) => a.name < b.name ? -1 : 1);
  }

  /** Applies one event. @returns refusals that are new or have a new reason, to log once each */
  apply(event: ObjectEvent): Refusal[] {
    return atOnce(this.applying(event));
  }

  /** Applies one event. Until the end the cache is inconsistent. @yields when other work can run */
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
      case "upsert":
        this.#refused.delete(refusalKey(event));
        this.#set(event);
        return [];
    }
  }

  /** Stores the objects of a state file, which stay until the sources have delivered. */
  *restoring(events: readonly ReplaceEvent[]): Generator<undefined, void> {
    for (const event of events) yield* this.#replace(event);
    this.#isRestored = true;
  }

  /** Takes the changes since the last call. @param share a bound, which does not apply if the node changed */
  takeDirty(share?: Share): Dirty {
    const node = this.#dirtyNode;
    this.#dirtyNode = false;
    return { services: this.#dirtyServices.take(node ? undefined : share), node };
  }

  putBack(services: Iterable<string>): void {
    for (const key of services) this.#dirtyServices.add(key);
  }

  /** Marks the node for the next sync: an address of its interfaces changed, or a port that it needs. */
  markNode(): void {
    this.#dirtyNode = true;
  }

  /** Returns new or changed omissions since the last call, to log once each. */
  takeOmissions(): readonly Refusal[] {
    return this.#newOmissions.splice(0);
  }

  *#replace({ kind, changes }: ReplaceEvent): Generator<undefined, Refusal[]> {
    for (const key of this.#objects[kind].keys()) {
      if (!changes.has(key)) this.#set({ type: "delete", kind, key });
      yield;
    }
    for (const refusal of this.#refused.values()) {
      if (refusal.kind === kind && changes.get(refusal.key)?.type !== "refuse") {
        this.#refused.delete(refusalKey(refusal));
      }
    }
    const refusals: Refusal[] = [];
    for (const change of changes.values()) {
      if (change.type === "refuse") append(refusals, this.#refuse(change));
      else this.#set(change);
      yield;
    }
    return refusals;
  }

  #refuse(change: Extract<ObjectChange, { readonly type: "refuse" }>): Refusal[] {
    const { kind, key, reason, isExcess, isLogged } = change;
    const refusal = { kind, key, reason, ...isExcess && { isExcess } };
    const known = this.#refused.get(refusalKey(refusal));
    this.#refused.set(refusalKey(refusal), refusal);
    return isLogged || known?.reason === reason ? [] : [refusal];
  }

  /** Stores or removes one object and marks the Services that depend on it. */
  #set(change: Exclude<ObjectChange, { readonly type: "refuse" }>): void {
    const { kind, key } = change;
    const object = change.type === "upsert" ? change.object : undefined;
    const objects: Map<string, KindMap[Kind]> = this.#objects[kind];
    const previous = objects.get(key);
    // After a relist, most objects are equal.
    if (sameValue(previous, object)) return;
    if (object === undefined) objects.delete(key);
    else objects.set(key, object);
    const reason = object?.omitted?.join("; ");
    if (reason !== undefined && reason !== previous?.omitted?.join("; ")) {
      this.#newOmissions.push({ kind, key, reason });
    }
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

  #indexSlice(slice: EndpointSlice): void {
    const service = serviceOfSlice(slice);
    this.#dirtyServices.add(service);
    const slices = this.#slicesByService.get(service);
    // Most lists have one slice, and `push` makes room for 17 (V8).
    if (slices === undefined) this.#slicesByService.set(service, [slice]);
    else if (slices.length === 1) this.#slicesByService.set(service, [...slices, slice]);
    else slices.push(slice);
  }

  #unindexSlice(slice: EndpointSlice): void {
    const service = serviceOfSlice(slice);
    this.#dirtyServices.add(service);
    const slices = this.#slicesByService.get(service) ?? [];
    const last = slices.pop();
    if (last !== undefined && last !== slice) slices[slices.indexOf(slice)] = last;
    if (slices.length === 0) this.#slicesByService.delete(service);
  }
}

/** Returns the `namespace/name` of the Service of a slice. */
export function serviceOfSlice({ namespace, serviceName }: EndpointSlice): string {
  return objectKey({ namespace, name: serviceName });
}

function refusalKey({ kind, key }: { readonly kind: Kind; readonly key: string }): string {
  return `${kind} ${key}`;
}

/** Returns the Node, with known facts that a new registration lacks, as in kube-proxy (`pkg/proxy/node.go`). */
function keepKnown(node: Node, known: Node | undefined): Node {
  if (known === undefined) return node;
  const isRegistering = node.addresses.length === 0;
  return {
    ...node,
    addresses: isRegistering ? known.addresses : node.addresses,
    podCIDRs: node.podCIDRs.length === 0 ? known.podCIDRs : node.podCIDRs,
    zone: node.zone === "" && isRegistering ? known.zone : node.zone,
  };
}

interface Share {
  /** The cost, in elements, that ends a sync's share. */
  readonly most: number;
  readonly costOf: (key: string) => number;
}

/** Queues each Service once. Namespaces that did not have a turn come first. */
export class FairQueue {
  /** Services that were added since the last turn. */
  #incoming = new Set<string>();
  /** Services that wait longer, by namespace: of namespaces before their first turn, and after it. */
  readonly #fresh = new Map<string, Set<string>>();
  readonly #served = new Map<string, Set<string>>();
  /** The Service that begins the next share, because the last share had too little room. */
  #first: string | undefined;

  get isEmpty(): boolean {
    return this.#incoming.size === 0 && !this.#hasBacklog;
  }

  get #hasBacklog(): boolean {
    return this.#first !== undefined || this.#fresh.size + this.#served.size > 0;
  }

  has(key: string): boolean {
    if (key === this.#first) return true;
    const { namespace } = splitKey(key);
    return [this.#incoming, this.#fresh.get(namespace), this.#served.get(namespace)]
      .some((keys) => keys?.has(key));
  }

  add(key: string): void {
    this.#incoming.add(key);
  }

  /**
   * Takes Services, one of each namespace in turn, up to the cost of one share. New Services with a lower cost come
   * first. A Service that costs more than a share is taken alone.
   */
  take({ most, costOf }: Share = { most: Infinity, costOf: () => 0 }): ReadonlySet<string> {
    const incoming = this.#incoming;
    this.#incoming = new Set();
    const byCost = [...incoming].map((key) => ({ key, cost: costOf(key) }))
      .sort((a, b) => a.cost - b.cost);
    const total = byCost.reduce((sum, { cost }) => sum + cost, 0);
    if (!this.#hasBacklog && (total <= most || incoming.size === 1)) return incoming;
    for (const { key } of byCost) if (key !== this.#first) this.#enqueue(key);
    const taken = new Set<string>();
    for (let cost = 0; cost < most;) {
      const key = this.#next();
      if (key === undefined) break;
      cost += costOf(key);
      if (cost > most && taken.size > 0) {
        this.#first = key;
        break;
      }
      taken.add(key);
    }
    return taken;
  }

  #enqueue(key: string): void {
    const { namespace } = splitKey(key);
    const keys = this.#served.get(namespace) ?? this.#fresh.get(namespace);
    if (keys) keys.add(key);
    else this.#fresh.set(namespace, new Set([key]));
  }

  #next(): string | undefined {
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) return first;
    const waiting = this.#fresh.size > 0 ? this.#fresh : this.#served;
    for (const [namespace, keys] of waiting) {
      waiting.delete(namespace);
      const [key] = keys;
      if (key === undefined) continue;
      keys.delete(key);
      if (keys.size > 0) this.#served.set(namespace, keys);
      return key;
    }
    return undefined;
  }
}
