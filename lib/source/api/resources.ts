/** Defines the collection of each kind and its lists (kubernetes.io/docs/reference/using-api/api-concepts). */
import type { Decoded, Kind, KindMap, ReplaceEvent } from "../../model/cluster/objects.ts";
import { WatchError } from "./failure.ts";
import { fieldAt } from "../../model/values/record.ts";
import { HEADLESS, SERVICE_PROXY_NAME } from "../objects/tables.ts";

export interface Resource {
  readonly path: string;
  readonly selectors: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** True if a cluster may lack the resource. */
  readonly optional?: boolean;
}

/** Returns the collection of a kind, with kube-proxy's label selectors (cmd/kube-proxy/app/server.go). */
export function resourceOf(kind: Kind, nodeName: string): Resource {
  const resources: { readonly [K in Kind]: Resource } = {
    // Servers before Kubernetes 1.31 have no field selector for cluster IPs. The decoder ignores headless Services.
    Service: { path: "/api/v1/services", selectors: { labelSelector: `!${SERVICE_PROXY_NAME}` } },
    EndpointSlice: {
      path: "/apis/discovery.k8s.io/v1/endpointslices",
      selectors: { labelSelector: `!${HEADLESS}` },
    },
    Node: { path: "/api/v1/nodes", selectors: { fieldSelector: `metadata.name=${nodeName}` } },
    // They came with Kubernetes 1.33.
    ServiceCIDR: { path: "/apis/networking.k8s.io/v1/servicecidrs", selectors: {}, optional: true },
  };
  return resources[kind];
}

/** The most objects of a kind to keep, against a faulty server. Kubernetes supports 150,000 pods. */
export const MAX_OBJECTS = 500_000;

export function tooManyObjects(kind: Kind, max: number): WatchError {
  const message = `the API server names more than ${max} ${kind} objects, more than any cluster ` +
    "has: is it the right server?";
  return new WatchError("too-many", message);
}

/** Collects decoded objects until a list is complete. */
export class Snapshot<K extends Kind> {
  readonly #objects = new Map<string, KindMap[K]>();
  readonly #refused = new Map<string, string>();
  /** The keys of all objects so far, ignored and removed ones too. */
  readonly #seen = new Set<string>();

  constructor(private readonly kind: K, private readonly max = MAX_OBJECTS) {}

  /** Takes the current state of an object. @returns true if its key is new @throws {WatchError} at one too many */
  put(decoded: Decoded<K>): boolean {
    const { key } = decoded;
    const isNew = !this.#seen.has(key);
    if (isNew && this.#seen.size >= this.max) throw tooManyObjects(this.kind, this.max);
    this.#seen.add(key);
    this.remove(key);
    if (decoded.type === "object") this.#objects.set(key, decoded.object);
    if (decoded.type === "refused") this.#refused.set(key, decoded.reason);
    return isNew;
  }

  remove(key: string): void {
    this.#objects.delete(key);
    this.#refused.delete(key);
  }

  get size(): number {
    return this.#objects.size;
  }

  /** The number of keys so far, ignored and removed ones too. */
  get seen(): number {
    return this.#seen.size;
  }

  /** Returns the keys of objects that are not ignored. */
  get keys(): Set<string> {
    return new Set([...this.#objects.keys(), ...this.#refused.keys()]);
  }

  toEvent(): ReplaceEvent {
    const [objects, refused] = [this.#objects, this.#refused];
    return { type: "replace", kind: this.kind, objects, refused } as ReplaceEvent;
  }
}

interface ListPage {
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  /** The token of the next page; `""` on the last one. */
  readonly next: string;
}

/** Reads one answer of a list. @throws {WatchError} if it is none */
export function readListPage(body: unknown): ListPage {
  const items = fieldAt(body, "items") ?? [];
  const kind = fieldAt(body, "kind");
  const resourceVersion = fieldAt(body, "metadata", "resourceVersion");
  const next = fieldAt(body, "metadata", "continue") ?? "";
  if (
    typeof kind !== "string" || !kind.endsWith("List") || !Array.isArray(items) ||
    typeof resourceVersion !== "string" || typeof next !== "string"
  ) {
    throw new WatchError("garbage", "the answer is no list of objects");
  }
  return { items, resourceVersion, next };
}
