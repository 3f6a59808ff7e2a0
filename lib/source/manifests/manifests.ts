/**
 * Parses manifests: the text of a file in, decoded objects out.
 * @module
 */
import { parse as parseYaml } from "@std/yaml";
import type { Decoded, Decoder, Kind } from "../../model/cluster/objects.ts";
import { kindOf } from "../objects/tables.ts";
import { resourceOf } from "../api/resources.ts";
import { errorText, oneLine } from "../../model/values/text.ts";
import { fieldAt, isRecord, type Json } from "../../model/values/record.ts";

/** A file that cannot be used; the message has its path and line. */
export class ManifestError extends Error {
  override name = "ManifestError";
}

/** A decoded object of a file. */
type ManifestObject = { [K in Kind]: { readonly kind: K; readonly decoded: Decoded<K> } }[
  Kind
];

/** The content of a file. */
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
  /** Called with every object of a known kind, selected or not. */
  readonly inspect?: (kind: Kind, raw: unknown) => void;
}

/** The depth of nested lists. */
const MAX_DEPTH = 4;

/**
 * Parses one file: YAML or JSON, one document or many, lists included.
 *
 * Objects are selected as by the API server: no Services or slices of other proxies, no headless Services, only
 * this Node. The default namespace is `default`.
 * @throws {ManifestError} if the file is no YAML or JSON, or holds a value that is no object
 */
export function parseManifest(text: string, options: ManifestOptions): Manifest {
  const objects: ManifestObject[] = [];
  const skipped: string[] = [];
  for (const { value, line } of parseDocuments(text, options.file)) {
    const place = `${oneLine(options.file)}:${line}`;
    for (const object of objectsIn(value, { place, depth: 0, apiVersion: "", kind: "" })) {
      const name = `${oneLine(String(object["kind"]))} ${oneLine(String(nameOf(object)))}`;
      const kind = kindOf(object);
      if (kind !== undefined) options.inspect?.(kind, object);
      if (kind === undefined) skipped.push(name);
      else if (resourceOf(kind, options.nodeName).selects(object)) {
        objects.push({ kind, decoded: options.decode(kind, object) } as ManifestObject);
      }
    }
  }
  return { objects, skipped };
}

interface Document {
  readonly value: unknown;
  /** The number of its first line, from 1. */
  readonly line: number;
}

function parseDocuments(text: string, file: string): Document[] {
  const whole = parseWholeJson(text);
  if (whole !== undefined) return [{ value: whole, line: 1 }];
  return splitDocuments(text).map(({ source, line }) => {
    try {
      const value = parseYaml(source, { schema: "default" });
      return { value, line: line + leadingLines(source) };
    } catch (cause) {
      const at = cause instanceof Error && "line" in cause ? Number(cause.line) - 1 : 0;
      const reason = errorText(cause).replace(/ at line \d+, column \d+:?.*$/, "");
      throw new ManifestError(`${oneLine(file)}:${line + at}: ${reason}`, { cause });
    }
  }).filter(({ value }) => value !== null && value !== undefined);
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

/** Splits a file into documents with their first lines, for errors. */
function splitDocuments(text: string): { readonly source: string; readonly line: number }[] {
  const documents: { source: string; line: number }[] = [];
  let lines: string[] = [];
  let start = 1;
  text.split(/\r?\n/).forEach((content, index) => {
    if (/^---(\s|$)/.test(content) && lines.some((line) => !/^\s*(#|%|$)/.test(line))) {
      documents.push({ source: lines.join("\n"), line: start });
      lines = [];
      start = index + 1;
    }
    lines.push(content);
  });
  documents.push({ source: lines.join("\n"), line: start });
  return documents;
}

function leadingLines(source: string): number {
  const index = source.split("\n").findIndex((line) => !/^\s*(#|---\s*$|$)/.test(line));
  return Math.max(index, 0);
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
  const created = metadata["creationTimestamp"];
  return {
    ...object,
    metadata: {
      ...metadata,
      namespace: metadata["namespace"] ?? "default",
      // YAML has a type for dates, JSON has not.
      ...(created instanceof Date && { creationTimestamp: created.toISOString() }),
      ...datesToText(metadata["annotations"], "annotations"),
    },
  };
}

function datesToText(value: unknown, name: string): Json {
  if (!isRecord(value)) return {};
  return {
    [name]: Object.fromEntries(
      Object.entries(value).map((
        [key, entry],
      ) => [key, entry instanceof Date ? entry.toISOString() : entry]),
    ),
  };
}

function nameOf(object: Json): unknown {
  return fieldAt(object, "metadata", "name");
}
