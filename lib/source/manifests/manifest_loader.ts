/** Turns manifest files and folders into events, once or as they change. */
import { basename, join } from "@std/path/posix";
import { type Decoder, type EventSink, type Kind, KINDS } from "../../model/cluster/objects.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { type Manifest, ManifestError, parseManifest } from "./manifests.ts";
import { errorText, oneLine } from "../../model/values/text.ts";
import { Snapshot } from "../api/resources.ts";

export interface FileInfo {
  readonly isDirectory: boolean;
  /** Changes with the content and the right to read it: inode, size and times of the last changes. */
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

export interface ManifestSourceOptions {
  /** Files, folders (their `.yaml`, `.yml` and `.json` files, not recursive) and `-`. */
  readonly paths: readonly string[];
  readonly decode: Decoder;
  readonly sink: EventSink;
  readonly nodeName: string;
  readonly files: Files;
  readonly logger: Logger;
  /** Called with every object of a known kind. */
  readonly inspect?: (kind: Kind, raw: unknown) => void;
}

interface FollowOptions extends ManifestSourceOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Milliseconds between looks at the files; 500 by default. */
  readonly interval?: number;
}

/**
 * Loads everything and delivers a `replace` for each kind.
 * @throws {ManifestError} if a path or file cannot be used, with nothing delivered
 */
export async function loadManifests(options: ManifestSourceOptions): Promise<ManifestLoader> {
  const loader = new ManifestLoader(options);
  const problems = await loader.load();
  if (problems.length > 0) throw new ManifestError(problems.join("; "));
  loader.deliver();
  return loader;
}

/**
 * Loads everything, then follows changes until the signal aborts. A file that breaks later keeps its last good state,
 * with one warning.
 * @throws {ManifestError} at the start only, because the state was never complete
 */
export async function followManifests(options: FollowOptions): Promise<void> {
  const { clock, signal, interval = 500 } = options;
  const loader = await loadManifests(options);
  while (!signal.aborted) {
    await clock.sleep(interval, signal);
    if (signal.aborted || !await loader.isDue()) continue;
    loader.warn(await loader.load());
    loader.deliver();
  }
}

/** Looks at files that change each time, until they are loaded nevertheless. */
const MOST_LOOKS = 5;

interface LoadedFile {
  readonly fingerprint: string;
  readonly manifest: Manifest;
}

/** Keeps the content of the files, and reads them again. */
class ManifestLoader {
  #loaded = new Map<string, LoadedFile>();
  /** The facts about the files when they were loaded, and at the last look. */
  #fingerprint = "";
  #seen = "";
  /** Looks since the last load that found changes. */
  #looks = 0;
  /** Problems that were logged already. */
  #logged = new Set<string>();

  constructor(private readonly options: ManifestSourceOptions) {}

  /** Reads the changed files. @returns the problems; their files keep the old content */
  async load(): Promise<string[]> {
    const problems: string[] = [];
    this.#fingerprint = await this.#look();
    this.#looks = 0;
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

  /** Returns true if the files differ from the loaded ones, and have settled or did not for many looks. */
  async isDue(): Promise<boolean> {
    const before = this.#seen;
    this.#seen = await this.#look();
    if (this.#seen === this.#fingerprint) return false;
    this.#looks++;
    return this.#seen === before || this.#looks >= MOST_LOOKS;
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
    const snapshots = KINDS.map((kind) => {
      const snapshot = new Snapshot<Kind>(kind);
      for (const [file, { manifest }] of this.#loaded) {
        for (const { kind: own, decoded } of manifest.objects) {
          if (own !== kind || snapshot.put(decoded)) continue;
          const text = `${file}: ${kind} ${decoded.key} is defined twice, this definition counts`;
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
      return [...this.#loaded.keys()].filter((file) => isAt(path, file));
    }
  }

  async #loadFile(file: string, problems: string[]): Promise<LoadedFile | undefined> {
    const { decode, files, nodeName, logger, inspect } = this.options;
    const before = this.#loaded.get(file);
    try {
      const fingerprint = file === "-" ? "" : (await files.stat(file)).fingerprint;
      if (before?.fingerprint === fingerprint) return before;
      const manifest = parseManifest(await files.read(file), {
        file: file === "-" ? "stdin" : file,
        decode,
        nodeName,
        ...inspect && { inspect },
      });
      for (const object of manifest.skipped) {
        logger.debug(4, "an object of another kind is left out", { file, object });
      }
      return { fingerprint, manifest };
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
        seen.push(`${file} ${info?.fingerprint}`);
      }
    }
    return seen.join("\n");
  }
}

/** Returns true if the path is the file or its folder. */
function isAt(path: string, file: string): boolean {
  return file === path || file === join(path, basename(file));
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
