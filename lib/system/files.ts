/**
 * The adapter of `Files` and `FileWatcher` on Deno.
 * @module
 */
import type { FileInfo, Files, FileWatcher } from "../source/manifests/manifest_loader.ts";

/** Gives what there is to read once again and again: a daemon reads its manifests after a reload, too. */
class StandardInput {
  #text: Promise<string> | undefined;

  read(): Promise<string> {
    return this.#text ??= new Response(Deno.stdin.readable).text();
  }
}

const standardInput = new StandardInput();

/** Files of this machine, those that end in `.gz` unpacked, and standard input as `-`. */
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

/** Follows folders by inotify(7). Where that fails (limits, file systems), polling is left. */
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
        // A folder went away: polling finds what comes in its place.
      }
    })();
  },
};
