/**
 * Keeps the objects of the test API server: by resource, with one resource version for all of them, and
 * the history that watches resume from.
 */
import { encodeObject } from "./protobuf.ts";

/** An API object, as parsed JSON. */
export interface ApiObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly [key: string]: unknown;
  };
  readonly [key: string]: unknown;
}

/** A collection that the server knows. */
export interface Collection {
  readonly kind: string;
  readonly apiVersion: string;
  readonly plural: string;
  readonly namespaced: boolean;
  /** Path of the API group and version. */
  readonly base: string;
}

const CLUSTER_WIDE = ["Node", "Namespace", "ServiceCIDR"];

/** The kinds by group and version. signpost reads some of them, and programs beside it the others. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  "v1": ["Service", "Node", "Namespace", "Pod", "Endpoints", "ConfigMap", "Secret"],
  "discovery.k8s.io/v1": ["EndpointSlice"],
  "networking.k8s.io/v1": ["ServiceCIDR", "NetworkPolicy"],
  "events.k8s.io/v1": ["Event"],
  "metallb.io/v1beta1": [
    ...["IPAddressPool", "L2Advertisement", "BGPAdvertisement", "BFDProfile", "Community"],
    ...["BGPPeer", "ServiceL2Status", "ServiceBGPStatus"],
  ],
  "metallb.io/v1beta2": ["BGPPeer"],
};

/** The collections, by kind. */
export const COLLECTIONS: readonly Collection[] = Object.entries(KINDS).flatMap(
  ([apiVersion, kinds]) =>
    kinds.map((kind) => ({
      kind,
      apiVersion,
      plural: kind.toLowerCase().replace(/y$/, "ie").replace(/us$/, "use").replace(/s?$/, "s"),
      namespaced: !CLUSTER_WIDE.includes(kind),
      base: apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`,
    })),
);

/** An object with what it looks like on the wire, made once. */
export class Stored {
  #json: Uint8Array | undefined;
  #protobuf: Uint8Array | undefined;

  constructor(readonly object: ApiObject) {}

  get json(): Uint8Array {
    return this.#json ??= new TextEncoder().encode(JSON.stringify(this.object));
  }

  get protobuf(): Uint8Array {
    return this.#protobuf ??= encodeObject(this.object);
  }
}

/** One change; `before` or `after` is missing where the object was not there. */
export interface Change {
  readonly kind: string;
  readonly resourceVersion: number;
  readonly before: Stored | undefined;
  readonly after: Stored | undefined;
}

/** The objects of a store at one moment. */
interface SavedStore {
  readonly resourceVersion: number;
  readonly objects: ReadonlyMap<string, ReadonlyMap<string, Stored>>;
}

/** Objects, resource versions and their history. */
export class ApiStore {
  #resourceVersion = 1000;
  /** Changes up to and including this one are forgotten. */
  #compacted = 1000;
  readonly #objects = new Map<string, Map<string, Stored>>();
  #history: Change[] = [];
  readonly #listeners = new Set<(change: Change) => void>();

  /** The newest resource version. */
  get resourceVersion(): number {
    return this.#resourceVersion;
  }

  /** Adds or replaces an object. @returns its resource version */
  put(object: ApiObject): number {
    const { kind, apiVersion, namespaced } = collectionOf(object.kind ?? "");
    const resourceVersion = ++this.#resourceVersion;
    const key = keyOf(object, namespaced);
    const before = this.#collection(kind).get(key);
    const stored: ApiObject = {
      apiVersion,
      ...object,
      kind,
      metadata: {
        ...(namespaced && { namespace: "default" }),
        uid: before?.object.metadata["uid"] ?? crypto.randomUUID(),
        ...object.metadata,
        resourceVersion: String(resourceVersion),
      },
    };
    const after = new Stored(stored);
    this.#collection(kind).set(key, after);
    this.#record({ kind, resourceVersion, before, after });
    return resourceVersion;
  }

  /** The keys of all objects of a kind. */
  keys(kind: string): readonly string[] {
    return [...this.#collection(kind).keys()];
  }

  /** Removes an object by `namespace/name` or `name`. @returns whether it was there */
  delete(kind: string, key: string): boolean {
    const before = this.#collection(kind).get(key);
    if (before === undefined) return false;
    this.#collection(kind).delete(key);
    const resourceVersion = ++this.#resourceVersion;
    const metadata = { ...before.object.metadata, resourceVersion: String(resourceVersion) };
    const object = { ...before.object, metadata };
    this.#record({ kind, resourceVersion, before: new Stored(object), after: undefined });
    return true;
  }

  /** All objects of a kind. */
  list(kind: string): readonly Stored[] {
    return [...this.#collection(kind).values()];
  }

  /** One object by `namespace/name` or `name`. */
  get(kind: string, key: string): ApiObject | undefined {
    return this.#collection(kind).get(key)?.object;
  }

  /** Changes after a resource version, or `undefined` where they are forgotten. */
  since(resourceVersion: number): readonly Change[] | undefined {
    if (resourceVersion < this.#compacted) return undefined;
    const first = this.#history.findIndex((change) => change.resourceVersion > resourceVersion);
    return first < 0 ? [] : this.#history.slice(first);
  }

  /** Forgets the history: watches from an older resource version get 410. */
  compact(): void {
    this.#resourceVersion++;
    this.forget();
  }

  /** Forgets the history, as a server that starts: it answers no watch from an older resource version. */
  forget(): void {
    this.#compacted = this.#resourceVersion;
    this.#history = [];
  }

  /** Returns all objects and their resource version, for `restore`. */
  save(): SavedStore {
    const objects = new Map([...this.#objects].map(([kind, stored]) => [kind, new Map(stored)]));
    return { resourceVersion: this.#resourceVersion, objects };
  }

  /** Goes back to a saved state, as a restored etcd does. Nothing is said to watches. */
  restore({ resourceVersion, objects }: SavedStore): void {
    this.#resourceVersion = resourceVersion;
    this.#objects.clear();
    for (const [kind, stored] of objects) this.#objects.set(kind, new Map(stored));
    this.forget();
  }

  /** Calls back at each change. @returns a function that ends it */
  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #record(change: Change): void {
    this.#history.push(change);
    for (const listener of this.#listeners) listener(change);
  }

  #collection(kind: string): Map<string, Stored> {
    let collection = this.#objects.get(kind);
    if (collection === undefined) {
      collection = new Map();
      this.#objects.set(kind, collection);
    }
    return collection;
  }
}

function collectionOf(kind: string): Collection {
  const collection = COLLECTIONS.find((candidate) => candidate.kind === kind);
  if (collection === undefined) throw new Error(`the test API server knows no kind "${kind}"`);
  return collection;
}

function keyOf(object: ApiObject, namespaced: boolean): string {
  const { namespace, name } = object.metadata;
  return namespaced ? `${namespace ?? "default"}/${name}` : name;
}

/**
 * Makes a filter from a label selector and a field selector, of the forms that node proxies use:
 * `key`, `!key`, `key=value`, `key!=value`, joined by commas.
 */
export function makeFilter(
  labelSelector: string,
  fieldSelector: string,
): (object: ApiObject) => boolean {
  const labels = requirements(labelSelector, (object, key) => object.metadata.labels?.[key]);
  const fields = requirements(fieldSelector, (object, path) => {
    let value: unknown = object;
    for (const part of path.split(".")) {
      value = typeof value === "object" && value !== null
        ? (value as Record<string, unknown>)[part]
        : undefined;
    }
    return value === undefined ? "" : String(value);
  });
  return (object) => [...labels, ...fields].every((holds) => holds(object));
}

type Getter = (object: ApiObject, key: string) => string | undefined;

function requirements(selector: string, get: Getter): ((object: ApiObject) => boolean)[] {
  return selector.split(",").filter((part) => part !== "").map((part) => {
    const match = /^(!?)([^=!]+)(?:(!=|==?)(.*))?$/.exec(part);
    if (!match) throw new Error(`cannot read the selector "${part}"`);
    const [, not, key = "", operator, value] = match;
    if (operator === undefined) {
      return (object) => (get(object, key) === undefined) === (not === "!");
    }
    return (object) => (get(object, key) === value) === (operator !== "!=");
  });
}
