/**
 * Collects the first complete state of a kind from decoded objects.
 *
 * @module
 */
import type { Decoded, Kind, KindMap, ObjectEvent } from "../../model/cluster/objects.ts";
import { WatchError } from "./failure.ts";

/**
 * The most objects of a kind to keep. Kubernetes supports 150,000 pods and 5,000 nodes. The bound
 * protects memory from a faulty server.
 */
export const MAX_OBJECTS = 500_000;

/** Thrown if the server sends more objects than are kept. */
export class TooManyObjectsError extends WatchError {
  override name = "TooManyObjectsError";
  /** @param max the most objects to keep */
  constructor(kind: Kind, max: number) {
    super(
      "garbage",
      `the API server names more than ${max} ${kind} objects, more than any cluster has: ` +
        "is it the right server?",
    );
  }
}

/** Collects decoded objects until a list is complete. */
export class Snapshot<K extends Kind> {
  readonly #objects = new Map<string, KindMap[K]>();
  readonly #refused = new Map<string, string>();
  /** The keys of objects that are not ignored, for the watch that follows. */
  readonly keys = new Set<string>();
  /** Other keys that were seen: of ignored or removed objects. */
  readonly #others = new Set<string>();

  /** @param max the most objects to take; `MAX_OBJECTS` by default */
  constructor(private readonly kind: K, private readonly max = MAX_OBJECTS) {}

  /**
   * Takes the current state of an object.
   *
   * @returns true if its key is new
   * @throws {TooManyObjectsError} if there are too many objects
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

  /** The number of objects. */
  get size(): number {
    return this.#objects.size;
  }

  /** Removes an object. */
  remove(key: string): void {
    if (!this.keys.delete(key)) return;
    this.#objects.delete(key);
    this.#refused.delete(key);
    this.#others.add(key);
  }

  /** Returns the complete state as one event. */
  toEvent(): ObjectEvent {
    return {
      type: "replace",
      kind: this.kind,
      objects: this.#objects,
      refused: this.#refused,
    } as ObjectEvent;
  }
}

/** Returns the empty state of a kind. */
export function emptyState(kind: Kind): ObjectEvent {
  return new Snapshot(kind).toEvent();
}

/** Returns the event of one changed object. An ignored object counts as deleted. */
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
