/** Parses manifests: the text of a file in, decoded objects out. */
import { parseAll } from "@std/yaml";
import type { Decoded, Decoder, Kind } from "../../model/cluster/objects.ts";
import { kindOf } from "../objects/tables.ts";
import { errorText, oneLine } from "../../model/values/text.ts";
import { fieldAt, isRecord, type Json } from "../../model/values/record.ts";

/** A file that cannot be used; the message has its path and line. */
export class ManifestError extends Error {
  override name = "ManifestError";
}

type ManifestObject = { [K in Kind]: { readonly kind: K; readonly decoded: Decoded<K> } }[
  Kind
];

export interface Manifest {
  readonly objects: readonly ManifestObject[];
  /** Objects of other kinds, as `kind name`. */
  readonly skipped: readonly string[];
}

interface ManifestOptions {
  /** The file name in errors. */
  readonly file: string;
  readonly decode: Decoder;
  /** The name of the only Node to take, as in the API watch. */
  readonly nodeName: string;
  /** Called with every object of a known kind. */
  readonly inspect?: (kind: Kind, raw: unknown) => void;
}

const MAX_DEPTH = 4;

/**
 * Parses one file: YAML or JSON, one document or many, lists included. Of Nodes it takes this one alone.
 * @throws {ManifestError} if the file is no YAML or JSON, or holds a value that is no object
 */
export function parseManifest(text: string, options: ManifestOptions): Manifest {
  const objects: ManifestObject[] = [];
  const skipped: string[] = [];
  for (const [index, value] of parseDocuments(text, options.file).entries()) {
    if (value === null || value === undefined) continue;
    const place = `${oneLine(options.file)}: document ${index + 1}`;
    for (const object of objectsIn(value, { place, depth: 0, apiVersion: "", kind: "" })) {
      const name = `${oneLine(String(object["kind"]))} ${oneLine(String(nameOf(object)))}`;
      const kind = kindOf(object);
      if (kind !== undefined) options.inspect?.(kind, object);
      if (kind === undefined) skipped.push(name);
      else if (kind !== "Node" || nameOf(object) === options.nodeName) {
        objects.push({ kind, decoded: options.decode(kind, object) } as ManifestObject);
      }
    }
  }
  return { objects, skipped };
}

function parseDocuments(text: string, file: string): readonly unknown[] {
  const whole = parseWholeJson(text);
  if (whole !== undefined) return [whole];
  try {
    return parseAll(text, { schema: "default" }) as unknown[];
  } catch (cause) {
    const line = cause instanceof Error && "line" in cause ? `:${cause.line}` : "";
    const reason = errorText(cause).replace(/ at line \d+, column \d+:?.*$/, "");
    throw new ManifestError(`${oneLine(file)}${line}: ${reason}`, { cause });
  }
}

/** `JSON.parse` is a hundred times faster than the YAML parser. */
function parseWholeJson(text: string): unknown {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

interface ListContext {
  readonly place: string;
  readonly depth: number;
  /** The version and kind of items, if a list such as `ServiceList` has them. */
  readonly apiVersion: string;
  readonly kind: string;
}

function objectsIn(value: unknown, context: ListContext): Json[] {
  const kind = fieldAt(value, "kind") ?? context.kind;
  const apiVersion = fieldAt(value, "apiVersion") ?? context.apiVersion;
  if (!isRecord(value) || typeof kind !== "string" || kind === "") {
    throw new ManifestError(`${context.place}: no API object (it needs apiVersion and kind)`);
  }
  const { items } = value;
  if (!kind.endsWith("List") || !Array.isArray(items)) {
    return [withDefaults({ ...value, kind, apiVersion })];
  }
  if (context.depth >= MAX_DEPTH) {
    throw new ManifestError(`${context.place}: more than ${MAX_DEPTH} lists in each other`);
  }
  const ofItems = kind === "List" ? { kind: "", apiVersion: "" } : {
    kind: kind.slice(0, -"List".length),
    apiVersion: String(apiVersion),
  };
  return items.flatMap((item: unknown, index) =>
    objectsIn(item, {
      ...ofItems,
      place: `${context.place}: items[${index}]`,
      depth: context.depth + 1,
    })
  );
}

function withDefaults(object: Json): Json {
  const { metadata } = object;
  if (!isRecord(metadata)) return object;
  const { creationTimestamp: created, annotations } = metadata;
  return {
    ...object,
    metadata: {
      ...metadata,
      namespace: metadata["namespace"] ?? "default",
      // YAML has a type for dates, JSON has not.
      ...(created instanceof Date && { creationTimestamp: created.toISOString() }),
      ...(isRecord(annotations) && {
        annotations: Object.fromEntries(
          Object.entries(annotations).map((
            [key, value],
          ) => [key, value instanceof Date ? value.toISOString() : value]),
        ),
      }),
    },
  };
}

function nameOf(object: Json): unknown {
  return fieldAt(object, "metadata", "name");
}
