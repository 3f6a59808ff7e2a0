/**
 * Reads the objects that might be applied from manifests, and lays them over the present ones.
 *
 * @module
 */
import type { ObjectCache } from "../cache/cache.ts";
import { objectKey } from "../model/cluster/names.ts";
import { createDecoder } from "../source/objects/decode.ts";
import { plain } from "../model/values/text.ts";
import type { Decoded, Kind, KindMap, ObjectEvent } from "../model/cluster/objects.ts";
import { denoFiles } from "../system/files.ts";
import { loadManifests } from "../source/manifests/manifest_loader.ts";
import { ManifestError } from "../source/manifests/manifests.ts";
import { Inspector } from "../source/objects/inspect.ts";
import { fatalIf } from "../model/values/errors.ts";
import type { QueryContext } from "./context.ts";
import { withAllocatedFields } from "../verify/overlay.ts";
import { fieldAt } from "../model/values/record.ts";

/** The names of the objects that manifests hold, and what is odd about them. */
export class Proposed {
  readonly #names = new Set<string>();
  readonly #services = new Map<string, Inspector>();
  readonly #warnings: string[] = [];

  /** `Service shop/web` and so on, in their order. */
  get names(): readonly string[] {
    return [...this.#names];
  }

  /** Objects that cannot be used, and Services that have no address yet. */
  get warnings(): readonly string[] {
    return this.#warnings;
  }

  /** Keys of all Services, those without rules too. */
  get services(): Iterable<string> {
    return this.#services.keys();
  }

  /** Takes a look at an object as it is in the file. */
  look(kind: Kind, raw: unknown): void {
    const key = keyOf(raw);
    if (key === undefined) return;
    const isNamespaced = kind === "Service" || kind === "EndpointSlice";
    const name = isNamespaced ? objectKey(key) : key.name;
    this.#names.add(`${kind} ${plain(name)}`);
    if (kind !== "Service") return;
    const inspector = new Inspector(key);
    inspector.look(kind, raw);
    this.#services.set(objectKey(key), inspector);
  }

  /** Adds a warning. */
  warn(text: string): void {
    this.#warnings.push(plain(text));
  }

  /** Warns of Services that make no rules because the API server has yet to give them an address. */
  warnOfUnallocated(known: ReadonlyMap<string, unknown>): void {
    for (const [key, { service }] of this.#services) {
      const waits = service?.clusterIP === "" && service.type !== "ExternalName" &&
        service.otherProxy === "";
      if (waits && !known.has(key)) {
        this.warn(
          `Service ${key} has no cluster IP yet: the API server gives it one when it is applied`,
        );
      }
    }
  }
}

/**
 * Lays manifests over the objects of a cache, as applying them would.
 *
 * @throws {FatalError} where a file cannot be used
 */
export async function overlay(
  cache: ObjectCache,
  manifests: readonly string[],
  { nodeName, logger }: Pick<QueryContext, "nodeName" | "logger">,
): Promise<Proposed> {
  const proposed = new Proposed();
  const decode = createDecoder();
  const before = new Map(cache.services);
  await loadManifests({
    paths: manifests,
    decode: <K extends Kind>(kind: K, raw: unknown): Decoded<K> => {
      if (kind !== "Service") return decode(kind, raw);
      const key = keyOf(raw);
      const present = key && before.get(objectKey(key));
      return decode(kind, withAllocatedFields(raw, present));
    },
    sink: (event) => upsertAll(cache, event, proposed),
    inspect: (kind, raw) => proposed.look(kind, raw),
    nodeName,
    files: denoFiles,
    logger,
  }).catch(fatalIf(ManifestError));
  proposed.warnOfUnallocated(cache.services);
  return proposed;
}

/** Manifests are only a part of the state: what they do not name stays. */
function upsertAll(cache: ObjectCache, event: ObjectEvent, proposed: Proposed): void {
  if (event.type !== "replace") return;
  const { kind, objects, refused } = event;
  for (const [key, object] of objects) {
    cache.apply(
      { type: "upsert", kind, key, object: object as KindMap[typeof kind] } as ObjectEvent,
    );
    if (object.omitted) {
      proposed.warn(`of ${kind} ${key} a part would be left out: ${object.omitted.join("; ")}`);
    }
  }
  for (const [key, reason] of refused) proposed.warn(`${kind} ${key} would be refused: ${reason}`);
  if (kind !== "Service") return;
  // A Service that becomes headless or an alias loses its rules.
  for (const key of proposed.services) {
    if (!objects.has(key) && !refused.has(key)) cache.apply({ type: "delete", kind, key });
  }
}

function keyOf(raw: unknown): { readonly namespace: string; readonly name: string } | undefined {
  const name = fieldAt(raw, "metadata", "name");
  const namespace = fieldAt(raw, "metadata", "namespace") ?? "default";
  return typeof name === "string" && typeof namespace === "string"
    ? { namespace, name }
    : undefined;
}
