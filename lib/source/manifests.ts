/** Turns manifest files and folders into events, once or as they change. */
import { basename, join } from "@std/path/posix";
import { parseAll } from "@std/yaml";
import {
  type Decoder,
  type EventSink,
  type Kind,
  KINDS,
  type ObjectChange,
  type ReplaceEvent,
} from "../model/cluster/objects.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import {
  eachLine,
  errorText,
  oneLine,
  TAB_INDENTATION,
  tabIndentedLine,
} from "../model/values/text.ts";
import { fieldAt, isRecord, jsonIn, type JsonObject, sameValue } from "../model/values/record.ts";
import { kindOf, SERVICE_NAME } from "./objects/tables.ts";

/** Thrown for a file that cannot be used. The message has its path, and the line or the number of the document. */
export class ManifestError extends Error {
  override name = "ManifestError";
}

/** Reads files and follows links. Rejects with the system's error. */
export interface ManifestFiles {
  /** Reads a file; `-` is standard input, to its end. */
  read(path: string): Promise<string>;
  list(folder: string): Promise<readonly string[]>;
  /** Returns a fingerprint that changes with the content and the right to read it. Standard input never changes. */
  stat(path: string): Promise<{ readonly isDirectory: boolean; readonly fingerprint: string }>;
}

interface ParseOptions {
  /** Called with every object of a known kind. */
  readonly decode: Decoder;
  /** The name of the only Node to take, as in the API watch. */
  readonly nodeName: string;
  readonly logger: Logger;
}

export interface ManifestSourceOptions extends ParseOptions {
  /** Files, folders (their `.yaml`, `.yml` and `.json` files, not recursive) and `-`. */
  readonly paths: readonly string[];
  readonly sink: EventSink;
  readonly files: ManifestFiles;
}

interface FollowOptions extends ManifestSourceOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Milliseconds between looks at the files; 500 by default. */
  readonly interval?: number;
}

/** Loads all files, then delivers a `replace` for each kind. @throws {ManifestError} before it delivers */
export async function loadManifests(options: ManifestSourceOptions): Promise<ManifestLoader> {
  const loader = new ManifestLoader(options);
  const problems = await loader.load(await loader.look());
  if (problems.size > 0) throw new ManifestError([...problems].join("; "));
  loader.deliver();
  return loader;
}

/** Successive looks that find changes, after which the files are loaded all the same. */
const MOST_LOOKS = 5;

/**
 * Loads all files, then follows changes until the signal aborts. Files are loaded after a look without a change:
 * until then a file may be half written, a folder half removed, or an object be moved from one file to another.
 * A file that breaks keeps its last good state, with one warning.
 * @throws {ManifestError} at the start only, because the state is not complete yet
 */
export async function followManifests(options: FollowOptions): Promise<void> {
  const { clock, signal, interval = 500 } = options;
  const loader = await loadManifests(options);
  let [before, changes] = [loader.loadedFrom, 0];
  for (;;) {
    await clock.sleep(interval, signal);
    if (signal.aborted) return;
    const seen = await loader.look();
    changes = sameValue(seen, before) ? 0 : changes + 1;
    before = seen;
    if (changes % MOST_LOOKS > 0 || sameValue(seen, loader.loadedFrom)) continue;
    loader.warn(await loader.load(seen));
    loader.deliver();
  }
}

/** A file that a look found, or a path that cannot be read. */
interface Seen {
  readonly path: string;
  readonly fingerprint?: string;
  readonly problem?: string;
}

/** The content of a file. */
interface Manifest {
  readonly objects: readonly ObjectChange[];
  /** For each object that signpost does not use, its kind and the reason. */
  readonly leftOut: readonly string[];
}

interface LoadedFile extends Manifest {
  readonly seen: Seen;
}

class ManifestLoader {
  /** The last good content of each file. */
  #loaded: ReadonlyMap<string, LoadedFile> = new Map();
  /** The files of the last load, as its look found them. */
  loadedFrom: readonly Seen[] = [];
  /** The problems of the last load. They were logged. */
  #logged: ReadonlySet<string> = new Set();

  constructor(private readonly options: ManifestSourceOptions) {}

  async look(): Promise<readonly Seen[]> {
    const { paths, files } = this.options;
    const problem = (path: string) => (cause: unknown) => ({
      path,
      problem: problemOf(path, cause),
    });
    const see = (path: string): Promise<Seen> =>
      files.stat(path).then(({ fingerprint }) => ({ path, fingerprint }), problem(path));
    const looks = paths.map((path) =>
      this.#filesAt(path).then((found) => Promise.all(found.map(see)), problem(path))
    );
    return (await Promise.all(looks)).flat();
  }

  /** Reads the changed files. A path that cannot be read keeps its content. @returns the problems */
  async load(seen: readonly Seen[]): Promise<ReadonlySet<string>> {
    const problems = new Set<string>();
    const loaded = new Map<string, LoadedFile>();
    for (const each of seen) {
      const { path } = each;
      const known = this.#loaded.get(path);
      try {
        loaded.set(path, known && sameValue(known.seen, each) ? known : await this.#read(each));
      } catch (cause) {
        problems.add(problemOf(path, cause));
        for (const [file, content] of this.#loaded) {
          if (file === path || file === join(path, basename(file))) loaded.set(file, content);
        }
      }
    }
    this.#loaded = loaded;
    this.loadedFrom = seen;
    return problems;
  }

  warn(problems: ReadonlySet<string>): void {
    for (const problem of problems) {
      if (this.#logged.has(problem)) continue;
      this.options.logger.warn("manifest refused; its last good state stays", { problem });
    }
    this.#logged = problems;
  }

  /** Delivers one `replace` for each kind, with the last definition of each object. */
  deliver(): void {
    const { logger, sink } = this.options;
    const all = new Map(KINDS.map((kind) => [kind, new Map<string, ObjectChange>()]));
    for (const [file, { objects }] of this.#loaded) {
      for (const change of objects) {
        const { kind, key } = change;
        const changes = all.get(kind);
        const text = `${file}: ${kind} ${key} is defined twice, this definition is used`;
        if (changes?.has(key)) logger.warn(oneLine(text));
        changes?.set(key, change);
      }
    }
    const leftOut = [...this.#loaded.values()].flatMap((file) => file.leftOut);
    if (leftOut.length > 0) {
      logger.info("left out objects that signpost does not use", { objects: counted(leftOut) });
    }
    for (const [kind, changes] of all) sink({ type: "replace", kind, changes } as ReplaceEvent);
  }

  async #read(seen: Seen): Promise<LoadedFile> {
    if (seen.problem !== undefined) throw new ManifestError(seen.problem);
    const file = seen.path === "-" ? "stdin" : seen.path;
    const text = await this.options.files.read(seen.path);
    return { ...parseManifest(text, { ...this.options, file }), seen };
  }

  /** Returns the manifest files at a path: the file, or the folder's sorted files that are not hidden. */
  async #filesAt(path: string): Promise<readonly string[]> {
    const { files } = this.options;
    if (!(await files.stat(path)).isDirectory) return [path];
    return (await files.list(path))
      .filter((name) => /^[^.].*\.(?:ya?ml|json)$/.test(name))
      .sort()
      .map((name) => join(path, name));
  }
}

/** Kinds of objects in one line of the log. */
const MOST_KINDS = 10;

/** Counts equal texts, the most frequent first: `3 Deployment, 1 Secret`. */
function counted(texts: readonly string[]): string {
  const counts = [...Map.groupBy(texts, (text) => text)].sort(([, a], [, b]) =>
    b.length - a.length
  );
  const more = counts.length - MOST_KINDS;
  return counts.slice(0, MOST_KINDS).map(([text, { length }]) => `${length} ${text}`).join(", ") +
    (more > 0 ? `, and ${more} more kinds` : "");
}

function problemOf(path: string, cause: unknown): string {
  if (cause instanceof ManifestError) return cause.message;
  return `${oneLine(path)}: cannot be read: ${errorText(cause)}`;
}

/**
 * Parses one file: YAML or JSON, one document or many, lists included. Of Nodes it takes this one alone.
 * @param options `file`: its name in errors
 * @throws {ManifestError} if the file is not YAML or JSON, or holds a value that is not an object
 */
export function parseManifest(
  text: string,
  { file, decode, nodeName }: Omit<ParseOptions, "logger"> & { readonly file: string },
): Manifest {
  const objects: ObjectChange[] = [];
  const leftOut: string[] = [];
  const documents = parseDocuments(text, file);
  const lines = documentLines(text, documents.length);
  for (const [index, value] of documents.entries()) {
    if (value === null || value === undefined) continue;
    const place = `${oneLine(file)}: document ${index + 1}`;
    for (const object of objectsIn(value, place)) {
      const name = fieldAt(object, "metadata", "name");
      const kind = kindOf(object);
      const reason = reasonToLeaveOut(object, kind);
      if (reason !== undefined) leftOut.push(reason);
      if (kind === undefined) continue;
      const change = decode(kind, object);
      if (kind === "Node" && name !== nodeName) continue;
      const at = lines[index] === undefined ? file : `${file}:${lines[index]}`;
      objects.push(
        change.type === "refuse"
          ? { ...change, reason: `${change.reason} (${oneLine(at)})` }
          : change,
      );
    }
  }
  return { objects, leftOut };
}

/** Returns the kind of an object that is left out, with the reason; `undefined` if it may be used. */
function reasonToLeaveOut(object: JsonObject, kind: Kind | undefined): string | undefined {
  if (kind === undefined) {
    const { apiVersion, kind: named } = object;
    // The configuration file may be in the same folder.
    if (named === "KubeProxyConfiguration") return undefined;
    const isKnown = (KINDS as readonly unknown[]).includes(named);
    const version = isKnown ? ` of ${oneLine(String(apiVersion), LONGEST_KIND)}` : "";
    return `${oneLine(String(named), LONGEST_KIND)}${version}`;
  }
  const hasNoService = kind === "EndpointSlice" &&
    fieldAt(object, "metadata", "labels", SERVICE_NAME) === undefined;
  return hasNoService ? `${kind} without the label ${SERVICE_NAME}` : undefined;
}

/** Characters of a kind in the log. */
const LONGEST_KIND = 60;

/** Returns the first line of each document, from 1; empty if documents and their separators do not match. */
function documentLines(text: string, count: number): readonly (number | undefined)[] {
  const lines: number[] = [];
  let number = 0;
  let isNew = true;
  for (const line of eachLine(text)) {
    number++;
    if (/^---(?:\s|$)/.test(line)) {
      // As in YAML, an empty document is a document if another one is before it.
      if (isNew && lines.length > 0) lines.push(number);
      isNew = true;
    } else if (isNew && /^\s*[^\s#]/.test(line)) {
      lines.push(number);
      isNew = false;
    }
  }
  return lines.length === count ? lines : [];
}

function parseDocuments(text: string, file: string): readonly unknown[] {
  // `JSON.parse` is a hundred times faster than the YAML parser.
  const whole = /^\s*[{[]/.test(text) ? jsonIn(text) : undefined;
  if (whole !== undefined) return [whole];
  const tab = tabIndentedLine(text);
  if (tab !== undefined) throw new ManifestError(`${oneLine(file)}:${tab}: ${TAB_INDENTATION}`);
  try {
    return parseAll(text, { schema: "default" }) as unknown[];
  } catch (cause) {
    const line = cause instanceof Error && "line" in cause ? `:${cause.line}` : "";
    const reason = errorText(cause).replace(/ at line \d+, column \d+:?.*$/, "");
    throw new ManifestError(`${oneLine(file)}${line}: ${reason}`, { cause });
  }
}

/** Yields the items of a list, or the object. Items of a typed list, such as ServiceList, lack a kind. */
function* objectsIn(value: unknown, place: string): Generator<JsonObject> {
  const kind = fieldAt(value, "kind");
  if (!isRecord(value) || typeof kind !== "string" || kind === "") {
    throw new ManifestError(`${place}: is not an API object (it needs apiVersion and kind)`);
  }
  const { apiVersion, items } = value;
  if (!kind.endsWith("List") || !Array.isArray(items)) return yield value;
  const ofItems = kind === "List" ? {} : { kind: kind.slice(0, -"List".length), apiVersion };
  for (const [index, item] of items.entries()) {
    const object: unknown = isRecord(item) ? { ...ofItems, ...item } : item;
    yield* objectsIn(object, `${place}: items[${index}]`);
  }
}
