/**
 * Programs of Debian's packages that are better not installed: prometheus would start a server.
 *
 * @module
 */
import { locateProgram } from "./programs.ts";

/** A program, and the package that it is in. */
export interface PackagedProgram {
  readonly name: string;
  readonly package: string;
}

/**
 * The path of a program: the installed one, or the one in its package, which is then unpacked into a
 * folder below `~/.cache/signpost` and not installed.
 *
 * @returns `undefined` where it is not installed and the package is not to be had
 */
export async function unpackedProgram(program: PackagedProgram): Promise<string | undefined> {
  const installed = locateProgram(program.name);
  if (installed !== undefined) return installed;
  const folder = `${cacheFolder()}/${program.package}`;
  const path = `${folder}/usr/bin/${program.name}`;
  if (await isFile(path)) return path;
  if (locateProgram("apt-get") === undefined || locateProgram("dpkg-deb") === undefined) {
    return undefined;
  }
  await Deno.mkdir(cacheFolder(), { recursive: true });
  const scratch = await Deno.makeTempDir({ dir: cacheFolder(), prefix: `${program.package}-` });
  try {
    await run(["chmod", "0755", scratch]);
    const download = ["apt-get", "download", "-q", program.package];
    const done = await run(download, scratch) ||
      await run(["apt-get", "update", "-q"]) && await run(download, scratch);
    const archive = [...Deno.readDirSync(scratch)].find(({ name }) => name.endsWith(".deb"));
    if (!done || archive === undefined) return undefined;
    if (!await run(["dpkg-deb", "-x", archive.name, "files"], scratch)) return undefined;
    await Deno.rename(`${scratch}/files`, folder).catch(() => {}); // Another process was first.
    return await isFile(path) ? path : undefined;
  } finally {
    await Deno.remove(scratch, { recursive: true });
  }
}

/** Where tools and tests keep what took time to get. */
export function cacheFolder(): string {
  const base = Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME") ?? "/root"}/.cache`;
  return `${base}/signpost`;
}

async function run(command: readonly string[], cwd?: string): Promise<boolean> {
  const [program = "", ...args] = command;
  const options = { args, stdin: "null", stdout: "null", stderr: "null" } as const;
  const child = new Deno.Command(program, cwd === undefined ? options : { ...options, cwd });
  return (await child.output()).success;
}

async function isFile(path: string): Promise<boolean> {
  return await Deno.stat(path).then(({ isFile }) => isFile, () => false);
}
