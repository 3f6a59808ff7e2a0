/** Bounds the memory that the objects of one kind take, in all and for each namespace. */
import { splitKey } from "../../model/cluster/names.ts";
import type { ObjectChange } from "../../model/cluster/objects.ts";

interface Bounds {
  /** Bytes of all objects, as JSON. */
  readonly all: number;
  /** Bytes of the objects of one namespace. */
  readonly namespace: number;
}

/** The key of the sum of all namespaces. It is not a valid name of a namespace. */
const ALL = "*";

export class ObjectSizes {
  /** The bytes of the last good state of each delivered object, by key; 0 without such a state. */
  #sizes = new Map<string, number>();
  /** The same for a list in progress. */
  #listed = new Map<string, number>();
  /** By namespace, and `ALL`. During a list, it has the growth beside the objects before it: memory has both. */
  #used = new Map<string, number>();
  #hasRefused = false;
  #hasShrunk = false;

  constructor(private readonly bounds: Bounds) {}

  get size(): number {
    return this.#sizes.size;
  }

  has(key: string): boolean {
    return this.#sizes.has(key);
  }

  /** Returns true if a list may bring objects that were refused. */
  get mayTakeMore(): boolean {
    return this.#hasRefused && this.#hasShrunk;
  }

  beginList(): void {
    this.#listed = new Map();
    this.#hasRefused = false;
    this.#recount();
  }

  /** Takes an object of a list, or refuses it: then its last good state stays. */
  list(change: ObjectChange): ObjectChange {
    if (change.type === "delete") return change;
    const { key } = change;
    const known = this.#known(key);
    const { taken, size } = this.#judge(change);
    this.#use(key, Math.max(0, size - known));
    this.#listed.set(key, size);
    return taken;
  }

  endList(): void {
    this.#sizes = this.#listed;
    this.#listed = new Map();
    this.#hasShrunk = false;
    this.#recount();
  }

  /** Takes an object after the list, or refuses it: then its last good state stays. */
  put(change: ObjectChange): ObjectChange {
    const { taken, size } = this.#judge(change);
    this.#set(change.key, size);
    return taken;
  }

  /** @returns true if the object was delivered */
  remove(key: string): boolean {
    if (this.#sizes.has(key)) this.#set(key, 0);
    return this.#sizes.delete(key);
  }

  #known(key: string): number {
    return Math.max(this.#sizes.get(key) ?? 0, this.#listed.get(key) ?? 0);
  }

  #set(key: string, size: number): void {
    const more = size - (this.#sizes.get(key) ?? 0);
    if (more < 0) this.#hasShrunk = true;
    this.#use(key, more);
    this.#sizes.set(key, size);
  }

  /** @returns the change or its refusal, and the bytes of the state that stays */
  #judge(change: ObjectChange): { taken: ObjectChange; size: number } {
    const { kind, key } = change;
    const isUpsert = change.type === "upsert";
    const size = isUpsert ? JSON.stringify(change.object).length : this.#known(key);
    // The decoder may have refused the object already.
    const isExcess = change.type === "refuse" && change.isExcess;
    const reason = isUpsert ? this.#excess(change, size) : isExcess ? change.reason : "";
    if (reason === "") return { taken: change, size };
    const isLogged = this.#hasRefused;
    this.#hasRefused = true;
    this.#hasShrunk = false;
    const refusal = { type: "refuse", kind, key, reason, isExcess: true, isLogged } as const;
    return { taken: refusal, size: this.#known(key) };
  }

  /** Returns the bound that an object would exceed before it is decoded, or `""`. @param size an estimate in bytes */
  expectedExcess(object: Pick<ObjectChange, "kind" | "key">, size: number): string {
    return this.#known(object.key) > 0 ? "" : this.#excess(object, size);
  }

  /** Returns the bound that an object exceeds; `""` if it is within the bounds, or does not grow. */
  #excess({ kind, key }: Pick<ObjectChange, "kind" | "key">, size: number): string {
    const more = size - this.#known(key);
    const { all, namespace: share } = this.bounds;
    const { namespace } = splitKey(key);
    const isFull = (name: string, bound: number) => (this.#used.get(name) ?? 0) + more > bound;
    if (more > 0 && isFull(namespace, share)) {
      return `the ${kind} objects of namespace ${namespace} have more than ${share} bytes: ` +
        "delete some of them";
    }
    if (more > 0 && isFull(ALL, all)) {
      return `the ${kind} objects of the cluster have more than ${all} bytes: delete some of them`;
    }
    return "";
  }

  #use(key: string, more: number): void {
    for (const name of [splitKey(key).namespace, ALL]) {
      const sum = (this.#used.get(name) ?? 0) + more;
      if (sum === 0) this.#used.delete(name);
      else this.#used.set(name, sum);
    }
  }

  #recount(): void {
    this.#used = new Map();
    for (const [key, size] of this.#sizes) this.#use(key, size);
  }
}
