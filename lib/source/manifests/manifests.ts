/** Parses manifests: the text of a file in, decoded objects out. */
import { parseAll } from "@std/yaml";
import type { Decoded, Decoder, Kind } from "../../model/cluster/objects.ts";
import { kindOf } from "../objects/tables.ts";
import { errorText, oneLine } from "../../model/values/text.ts";
import { fieldAt, isRecord, type Json } from "../../model/values/record.ts";

/** A file that cannot be used. The message has its path, and the line or the number of the document. */
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
    for (const object of objectsIn(value, place)) {
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

/** Returns the items of a list, or the object. Items of a typed list, such as ServiceList, have no kind. */
function objectsIn(value: unknown, place: string): readonly Json[] {
  const object = apiObject(value, place);
  const { kind, apiVersion, items } = object;
  if (!kind.endsWith("List") || !Array.isArray(items)) return [object];
  const ofItems = kind === "List" ? {} : { kind: kind.slice(0, -"List".length), apiVersion };
  return items.map((item: unknown, index) =>
    apiObject(isRecord(item) ? { ...ofItems, ...item } : item, `${place}: items[${index}]`)
  );
}

function apiObject(value: unknown, place: string): Json & { readonly kind: string } {
  const kind = fieldAt(value, "kind");
  if (isRecord(value) && typeof kind === "string" && kind !== "") return { ...value, kind };
  throw new ManifestError(`${place}: no API object (it needs apiVersion and kind)`);
}

function nameOf(object: Json): unknown {
  return fieldAt(object, "metadata", "name");
}
