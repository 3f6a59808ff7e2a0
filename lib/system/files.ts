/**
 * The adapter of `Files` and `FileWatcher` on Deno.
 * @module
 */
import type { FileInfo, Files, FileWatcher } from "../source/manifests/manifest_loader.ts";

/** Reads standard input once, and keeps the text: a daemon reads its manifests again after a reload. */
class StandardInput {
  #text: Promise<string> | undefined;

  read(): Promise<string> {
    return this.#text ??= new Response(Deno.stdin.readable).text();
  }
}

const standardInput = new StandardInput();

/** Reads files of this machine, unpacks those that end in `.gz`, and reads standard input as `-`. */
export const denoFiles: Files = {
  read: async (path) => {
    if (path === "-") return await standardInput.read();
    if (!path.endsWith(".gz")) return await Deno.readTextFile(path);
    const { readable } = await Deno.open(path);
    return await new Response(readable.pipeThrough(new DecompressionStream("gzip"))).text();
  },
  list: async (folder) => {
    const names: string[] = [];
    for await (const { name } of Deno.readDir(folder)) names.push(name);
    return names;
  },
  stat: async (path): Promise<FileInfo> => {
    const { isDirectory, ino, size, mtime } = await Deno.stat(path);
    return { isDirectory, fingerprint: `${ino}/${size}/${mtime?.getTime() ?? 0}` };
  },
};

/** Follows folders by inotify(7). If that fails (limits, file systems), polling remains. */
export const denoFileWatcher: FileWatcher = {
  watch: (folders, { onChange, signal }) => {
    let watcher: Deno.FsWatcher;
    try {
      watcher = Deno.watchFs([...folders], { recursive: false });
    } catch {
      return;
    }
    signal.addEventListener("abort", () => watcher.close(), { once: true });
    void (async () => {
      try {
        for await (const event of watcher) if (event.kind !== "access") onChange();
      } catch {
        // A folder was removed. Polling finds a new one in its place.
      }
    })();
  },
};
