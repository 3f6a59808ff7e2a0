/**
 * The ports that find, read and watch manifests. The adapter is `lib/system/files.ts`.
 *
 * @module
 */

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
  /**
   * Calls back until the signal aborts. It may call too often, and may miss changes, so polling
   * supplements it.
   */
  watch(
    folders: readonly string[],
    options: { readonly onChange: () => void; readonly signal: AbortSignal },
  ): void;
}
