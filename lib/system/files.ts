/** Adapter: reads manifest files, and writes log lines. */
import type { ManifestFiles } from "../source/manifests.ts";

/** Reads standard input once, and keeps the text: a daemon reads its manifests again after a reload. */
class StandardInput {
  #text: Promise<string> | undefined;

  read(): Promise<string> {
    return this.#text ??= new Response(Deno.stdin.readable).text();
  }
}

const standardInput = new StandardInput();

export const denoFiles: ManifestFiles = {
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
  stat: async (path) => {
    if (path === "-") return { isDirectory: false, fingerprint: "" };
    const { isDirectory, ino, size, mtime, ctime } = await Deno.stat(path);
    // Every change of the file sets ctime, also of its mode, but ctime has whole seconds (Deno 2.9).
    const fingerprint = [ino, size, mtime?.getTime(), ctime?.getTime()].join("/");
    return { isDirectory, fingerprint };
  },
};

/** Makes a sink for `createLogger` that writes to standard error. A line that cannot be written is lost. */
export function stderrSink(): (line: string) => void {
  const encoder = new TextEncoder();
  return (line) => {
    let rest = encoder.encode(line);
    try {
      while (rest.length > 0) rest = rest.subarray(Deno.stderr.writeSync(rest));
    } catch {
      // Standard error is gone, so the line is lost.
    }
  };
}
