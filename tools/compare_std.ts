/**
 * Compares the npm package `deno-std` with Deno's standard library, from which a third party makes it.
 *
 *     git clone https://github.com/denoland/std && git -C std checkout ca58f9427
 *     deno run -A tools/compare_std.ts std
 *
 * Types, comments and formatting do not count. Ends with 1 where a file differs or is on one side only.
 *
 * @module
 */
import { execute } from "../tests/support/command.ts";
import { packageFolder } from "./notices/read.ts";
import { complain, say } from "./terminal.ts";

/** The parts that signpost and its tests load, and what these load. */
const PARTS = ["yaml", "encoding", "assert", "internal"];

/** Processes at a time. */
const AT_ONCE = 4;

/**
 * Compares folders of JavaScript with folders of TypeScript.
 *
 * @param folders.made has `part/name.js`
 * @param folders.std has `part/name.ts`
 * @returns how many files are the same, and a line for each that is not
 */
export async function compareStd(
  folders: { readonly made: string; readonly std: string },
  parts: readonly string[] = PARTS,
): Promise<{ readonly same: number; readonly differences: readonly string[] }> {
  const paths = (await Promise.all(parts.map((part) => scripts(folders.made, part)))).flat().sort();
  const waiting = [...paths];
  const differences: string[] = [];
  const work = async () => {
    for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
      const source = path.replace(/\.js$/, ".ts");
      const [made, std] = await Promise.all([
        codeOf(`${folders.made}/${path}`),
        codeOf(`${folders.std}/${source}`),
      ]);
      if (std === undefined) differences.push(`${path}: there is no ${folders.std}/${source}`);
      else if (made !== std) differences.push(`${path}: differs from ${folders.std}/${source}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { same: paths.length - differences.length, differences: differences.sort() };
}

async function scripts(folder: string, part: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(`${folder}/${part}`)) {
    if (isDirectory) found.push(...await scripts(folder, `${part}/${name}`));
    else if (name.endsWith(".js")) found.push(`${part}/${name}`);
  }
  return found;
}

/** A file without types, comments and formatting; of the modules that it imports, their names. */
async function codeOf(path: string): Promise<string | undefined> {
  if (!await Deno.stat(path).then(() => true, () => false)) return undefined;
  const external = ["--inline-imports=false", "--packages=external"];
  const flags = ["-q", "--no-config", "--no-lock", "--minify", ...external];
  const { code, stdout, stderr } = await execute([
    ...[Deno.execPath(), "bundle", ...flags, path],
  ]);
  if (code !== 0) throw new Error(`${path} cannot be read: ${stderr.trim()}`);
  // "@std/internal/diff", "../internal/diff.js" and "./diff.ts" are one module.
  return stdout.replace(
    /\b(from|import)("|')([^"']+)\2/g,
    (_, word, __, name: string) => `${word}"${name.replace(/.*\//, "").replace(/\.[jt]s$/, "")}"`,
  );
}

/** @returns the exit code */
async function main([std]: readonly string[]): Promise<number> {
  if (std === undefined || std.startsWith("-")) {
    complain("usage: deno run -A tools/compare_std.ts FOLDER, a checkout of denoland/std");
    return 2;
  }
  const { same, differences } = await compareStd({ made: await packageFolder("deno-std"), std });
  for (const line of differences) complain(line);
  say(`${same} files are the code of ${std}, ${differences.length} are not`);
  return differences.length === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
