/**
 * The ports through which manifests are found, read and followed. The adapter is `lib/system/files.ts`.
 *
 * @module
 */

/** What is at a path. */
export interface FileInfo {
  readonly isDirectory: boolean;
  /** Changes whenever the content may have: inode, size and time of the last change. */
  readonly fingerprint: string;
}

/** Reads files, links followed. Everything rejects with the system's error. */
export interface Files {
  /** The text of a file; `-` is standard input, to its end. */
  read(path: string): Promise<string>;
  /** Names in a folder. */
  list(folder: string): Promise<readonly string[]>;
  stat(path: string): Promise<FileInfo>;
}

/** Tells that something below some folders may have changed. */
export interface FileWatcher {
  /**
   * Calls back until the signal aborts. May call back too often, and may miss changes: polling
   * stands behind it.
   */
  watch(
    folders: readonly string[],
    options: { readonly onChange: () => void; readonly signal: AbortSignal },
  ): void;
}
