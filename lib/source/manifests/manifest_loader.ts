/**
 * Turns manifest files and folders into events, once or as they change.
 * @module
 */
import { dirname, join } from "node:path/posix";
import { type Decoder, type EventSink, type Kind, KINDS } from "../../model/cluster/objects.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { type Manifest, ManifestError, parseManifest } from "./manifests.ts";
import { errorText, oneLine } from "../../model/values/text.ts";
import { Snapshot } from "../api/resources.ts";

/** The facts about a path. */
export interface FileInfo {
  readonly isDirectory: boolean;
  /** Changes with the content: inode, size and time of the last change. */
  readonly fingerprint: string;
}

/** Reads files and follows links. Rejects with the system's error. */
export interface Files {
  /** Reads a file; `-` is standard input, to its end. */
  read(path: string): Promise<string>;
  /** Returns the names in a folder. */
  list(folder: string): Promise<readonly string[]>;
  stat(path: string): Promise<FileInfo>;
}

/** Reports changes below some folders. */
export interface FileWatcher {
  /** Calls back until the signal aborts. It may call too often, and may miss changes, so polling supplements it. */
  watch(
    folders: readonly string[],
    options: { readonly onChange: () => void; readonly signal: AbortSignal },
  ): void;
}

/** The paths to load, and the parts of the loader. */
export interface ManifestSourceOptions {
  /** Files, folders (their `.yaml`, `.yml` and `.json` files, not recursive) and `-`. */
  readonly paths: readonly string[];
  readonly decode: Decoder;
  readonly sink: EventSink;
  /** The name of the only Node to take. */
  readonly nodeName: string;
  readonly files: Files;
  readonly logger: Logger;
  /** Called with every object of a known kind, selected or not. */
  readonly inspect?: (kind: Kind, raw: unknown) => void;
}

interface FollowOptions extends ManifestSourceOptions {
  readonly watcher: FileWatcher;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Milliseconds without a change before the files are read, 100 by default. */
  readonly debounce?: number;
  /** Milliseconds between polls, which find changes without an event; 5 s by default. */
  readonly pollInterval?: number;
}

/**
 * Loads everything once and delivers a `replace` for each kind.
 * @throws {ManifestError} at the first unusable path or file, with nothing delivered
 */
export async function loadManifests(options: ManifestSourceOptions): Promise<void> {
  const loader = new ManifestLoader(options);
  const problems = await loader.load();
  if (problems.length > 0) throw new ManifestError(problems.join("; "));
  loader.deliver();
}

/**
 * Loads everything, then follows changes until the signal aborts.
 *
 * A file that breaks later keeps its last good state, with one warning. A file that is broken at the start is an
 * error, because the state was never complete.
 * @throws {ManifestError} at the start only
 */
export async function followManifests(options: FollowOptions): Promise<void> {
  const { watcher, clock, signal, debounce = 100, pollInterval = 5_000 } = options;
  const loader = new ManifestLoader(options);
  const change = new Changes(clock);
  const folders = await foldersOf(options);
  if (folders.length > 0) {
    watcher.watch(folders, { onChange: () => change.notify(), signal });
  }
  const problems = await loader.load();
  if (problems.length > 0) throw new ManifestError(problems.join("; "));
  loader.deliver();
  while (!signal.aborted) {
    const hasEvent = await change.wait(pollInterval, signal);
    if (signal.aborted) return;
    if (hasEvent) await change.quiet(debounce, signal);
    if (!hasEvent && !await loader.looksChanged()) continue;
    loader.warn(await loader.load());
    if (loader.hasChanged) loader.deliver();
  }
}

/** Returns the folders to watch. A file may be replaced, so its folder is watched. */
async function foldersOf({ paths, files }: ManifestSourceOptions): Promise<readonly string[]> {
  const folders = await Promise.all(
    paths.filter((path) => path !== "-").map(async (path) => {
      const info = await files.stat(path).catch(() => undefined);
      return info?.isDirectory ? path : dirname(path);
    }),
  );
  return [...new Set(folders)];
}

interface LoadedFile {
  readonly digest: string;
  readonly manifest: Manifest;
}

/** Keeps the content of the files, and reads them again. */
class ManifestLoader {
  #loaded = new Map<string, LoadedFile>();
  #delivered: readonly LoadedFile[] = [];
  #fingerprint = "";
  /** Problems that were logged already. */
  #logged = new Set<string>();

  constructor(private readonly options: ManifestSourceOptions) {}

  /** True if there is undelivered content. */
  get hasChanged(): boolean {
    const now = [...this.#loaded.values()];
    return now.length !== this.#delivered.length ||
      now.some((file, index) => file !== this.#delivered[index]);
  }

  /** Reads the changed files. @returns the problems; their files keep the old content */
  async load(): Promise<string[]> {
    const problems: string[] = [];
    this.#fingerprint = await this.#look();
    const loaded = new Map<string, LoadedFile>();
    for (const path of this.options.paths) {
      for (const file of await this.#filesAt(path, problems)) {
        const content = await this.#loadFile(file, problems);
        if (content !== undefined) loaded.set(file, content);
      }
    }
    this.#loaded = loaded;
    return problems;
  }

  /** Returns true if any file seems to differ from its last reading. */
  async looksChanged(): Promise<boolean> {
    return await this.#look() !== this.#fingerprint;
  }

  warn(problems: readonly string[]): void {
    for (const problem of problems) {
      if (this.#logged.has(problem)) continue;
      this.options.logger.warn("manifest refused; its last good state stays", { problem });
    }
    this.#logged = new Set(problems);
  }

  /** Delivers one `replace` for each kind. The last definition of an object counts. */
  deliver(): void {
    const { logger, sink } = this.options;
    this.#delivered = [...this.#loaded.values()];
    const snapshots = KINDS.map((kind) => {
      const snapshot = new Snapshot<Kind>(kind);
      for (const [file, { manifest }] of this.#loaded) {
        for (const { kind: own, decoded } of manifest.objects) {
          if (own !== kind || snapshot.put(decoded)) continue;
          const text = `${file}: ${kind} ${decoded.key} is there twice, this one counts`;
          logger.warn(oneLine(text));
        }
      }
      return snapshot;
    });
    for (const snapshot of snapshots) sink(snapshot.toEvent());
  }

  async #filesAt(path: string, problems: string[]): Promise<readonly string[]> {
    if (path === "-") return ["-"];
    try {
      return await manifestFiles(path, this.options.files);
    } catch (cause) {
      problems.push(`${oneLine(path)}: cannot be read: ${errorText(cause)}`);
      return [...this.#loaded.keys()].filter((file) => file === path || dirname(file) === path);
    }
  }

  async #loadFile(file: string, problems: string[]): Promise<LoadedFile | undefined> {
    const { decode, files, nodeName, logger, inspect } = this.options;
    const before = this.#loaded.get(file);
    try {
      const text = await files.read(file);
      const digest = await sha256(text);
      if (before?.digest === digest) return before;
      const manifest = parseManifest(text, {
        file: file === "-" ? "stdin" : file,
        decode,
        nodeName,
        ...inspect && { inspect },
      });
      for (const object of manifest.skipped) {
        logger.debug(4, "an object of another kind is left out", { file, object });
      }
      return { digest, manifest };
    } catch (cause) {
      problems.push(
        cause instanceof ManifestError
          ? cause.message
          : `${oneLine(file)}: cannot be read: ${errorText(cause)}`,
      );
      return before;
    }
  }

  async #look(): Promise<string> {
    const { paths, files } = this.options;
    const seen: string[] = [];
    for (const path of paths.filter((candidate) => candidate !== "-")) {
      const found = await manifestFiles(path, files).catch(() => []);
      for (const file of found) {
        const info = await files.stat(file).catch(() => undefined);
        seen.push(`${file} ${info?.fingerprint ?? "gone"}`);
      }
    }
    return seen.join("\n");
  }
}

/** Returns the manifest files at a path: the file, or the sorted files of the folder without hidden ones. */
async function manifestFiles(path: string, files: Files): Promise<readonly string[]> {
  if (!(await files.stat(path)).isDirectory) return [path];
  const names = await files.list(path);
  return names
    .filter((name) => /^[^.].*\.(?:ya?ml|json)$/.test(name))
    .sort()
    .map((name) => join(path, name));
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(digest).toHex();
}

/** Waits for notices of changes. */
class Changes {
  #news = Promise.withResolvers<void>();
  #count = 0;

  constructor(private readonly clock: Clock) {}

  notify(): void {
    this.#count++;
    this.#news.resolve();
  }

  /** @returns true if a change came in time */
  async wait(milliseconds: number, signal: AbortSignal): Promise<boolean> {
    const over = new AbortController();
    await Promise.race([
      this.#news.promise,
      this.clock.sleep(milliseconds, AbortSignal.any([signal, over.signal])),
    ]);
    over.abort();
    return this.#count > 0;
  }

  /** Waits until no change came for the time, at most ten times. */
  async quiet(milliseconds: number, signal: AbortSignal): Promise<void> {
    for (let turn = 0; turn < 10 && !signal.aborted; turn++) {
      const before = this.#count;
      await this.clock.sleep(milliseconds, signal);
      if (this.#count === before) break;
    }
    this.#count = 0;
    this.#news = Promise.withResolvers();
  }
}
