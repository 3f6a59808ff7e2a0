/**
 * The first complete state of a kind, gathered object by object and already decoded.
 *
 * @module
 */
import type { Decoded, ObjectEvent } from "../../model/cluster/events.ts";
import type { Kind, KindMap } from "../../model/cluster/objects.ts";
import { WatchError } from "./failure.ts";

/**
 * Objects of a kind that are kept. Kubernetes is made for 150,000 pods and 5,000 nodes, so no
 * cluster has that many; a server that names objects without end would take all of the memory.
 */
export const MAX_OBJECTS = 500_000;

/** The server names more objects than are kept. */
export class TooManyObjectsError extends WatchError {
  override name = "TooManyObjectsError";
  /** @param max how many are kept */
  constructor(kind: Kind, max: number) {
    super(
      "garbage",
      `the API server names more than ${max} ${kind} objects, more than any cluster has: ` +
        "is it the right server?",
    );
  }
}

/** Gathers decoded objects until a list is complete. */
export class Snapshot<K extends Kind> {
  readonly #objects = new Map<string, KindMap[K]>();
  readonly #refused = new Map<string, string>();
  /** The keys of those that are not ignored: for whoever goes on from here. */
  readonly keys = new Set<string>();
  /** Other keys that were named: of objects that are ignored, or gone. */
  readonly #others = new Set<string>();

  /** @param max objects that are taken; `MAX_OBJECTS` by default */
  constructor(private readonly kind: K, private readonly max = MAX_OBJECTS) {}

  /**
   * Takes an object as it is now.
   *
   * @returns whether this object was not named before
   * @throws {TooManyObjectsError} where it is one too many
   */
  put(decoded: Decoded<K>): boolean {
    const { key } = decoded;
    const isNew = !this.keys.has(key) && !this.#others.has(key);
    const count = this.keys.size + this.#others.size;
    if (isNew && count >= this.max) throw new TooManyObjectsError(this.kind, this.max);
    if (!isNew) this.remove(key);
    if (decoded.type === "ignored") this.#others.add(key);
    else {
      this.#others.delete(key);
      this.keys.add(key);
    }
    if (decoded.type === "object") this.#objects.set(key, decoded.object);
    if (decoded.type === "refused") this.#refused.set(key, decoded.reason);
    return isNew;
  }

  /** How many objects there are. */
  get size(): number {
    return this.#objects.size;
  }

  /** Forgets an object. */
  remove(key: string): void {
    if (!this.keys.delete(key)) return;
    this.#objects.delete(key);
    this.#refused.delete(key);
    this.#others.add(key);
  }

  /** The complete state, as one event. */
  toEvent(): ObjectEvent {
    return {
      type: "replace",
      kind: this.kind,
      objects: this.#objects,
      refused: this.#refused,
    } as ObjectEvent;
  }
}

/** The complete state of a kind of which there is nothing. */
export function emptyState(kind: Kind): ObjectEvent {
  return new Snapshot(kind).toEvent();
}

/** What one changed object means after the first complete state. One that makes no rules is gone. */
export function changeEvent<K extends Kind>(kind: K, decoded: Decoded<K>): ObjectEvent {
  const { key } = decoded;
  switch (decoded.type) {
    case "object":
      return { type: "upsert", kind, key, object: decoded.object } as ObjectEvent;
    case "refused":
      return { type: "refuse", kind, key, reason: decoded.reason };
    case "ignored":
      return { type: "delete", kind, key };
  }
}
