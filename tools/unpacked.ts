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
  const [folder = ""] = await unpackedPackages([program.package]) ?? [];
  const path = `${folder}/usr/bin/${program.name}`;
  return await exists(path) ? path : undefined;
}

/**
 * Folders with the files of Debian's packages, without what they depend on; nothing is installed.
 *
 * @returns `undefined` where one of them is not to be had
 */
export async function unpackedPackages(names: readonly string[]): Promise<string[] | undefined> {
  const folders: string[] = [];
  for (const name of names) {
    const folder = `${cacheFolder()}/${name}`;
    if (!await exists(folder) && !await unpack(name, folder)) return undefined;
    folders.push(folder);
  }
  return folders;
}

async function unpack(name: string, folder: string): Promise<boolean> {
  if (locateProgram("apt-get") === undefined || locateProgram("dpkg-deb") === undefined) {
    return false;
  }
  await Deno.mkdir(cacheFolder(), { recursive: true });
  const scratch = await Deno.makeTempDir({ dir: cacheFolder(), prefix: `${name}-` });
  try {
    await run(["chmod", "0755", scratch]);
    const download = ["apt-get", "download", "-q", name];
    const done = await run(download, scratch) ||
      await run(["apt-get", "update", "-q"]) && await run(download, scratch);
    const archive = [...Deno.readDirSync(scratch)].find(({ name }) => name.endsWith(".deb"));
    if (!done || archive === undefined) return false;
    if (!await run(["dpkg-deb", "-x", archive.name, "files"], scratch)) return false;
    await Deno.rename(`${scratch}/files`, folder).catch(() => {}); // Another process was first.
    return await exists(folder);
  } finally {
    await Deno.remove(scratch, { recursive: true });
  }
}

/** Returns the folder of files that took time to get. */
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

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}
