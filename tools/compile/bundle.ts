/**
 * All modules of signpost in a few files of JavaScript.
 *
 * @module
 */
import { execute } from "../../tests/support/command.ts";
import { BUNDLE, bundleArguments } from "./arguments.ts";
import { type Commit, commitModule } from "./commit.ts";

const ROOT = new URL("../..", import.meta.url).pathname;
const SOURCES = ["deno.json", "deno.lock", "main.ts", "lib"];

/**
 * Makes `BUNDLE` in a folder, of a copy of the sources in which `lib/model/commit.ts` has the commit;
 * the checkout stays as it is. The same commit gives the same bytes, wherever the folder and Deno's
 * cache are.
 *
 * @returns the text of all files
 * @throws where `deno bundle` does
 */
export async function makeBundle(folder: string, commit: Commit): Promise<string> {
  const sources = `${folder}/sources`;
  await Deno.mkdir(sources);
  await execute(["cp", "-r", ...SOURCES.map((name) => `${ROOT}${name}`), sources]);
  await Deno.writeTextFile(`${sources}/lib/model/commit.ts`, commitModule(commit));
  const command = [Deno.execPath(), ...bundleArguments()];
  const { code, stderr } = await execute(command, { cwd: sources });
  if (code !== 0) throw new Error(`deno bundle failed: ${stderr.trim()}`);
  await Deno.rename(`${sources}/${BUNDLE}`, `${folder}/${BUNDLE}`);
  await Deno.remove(sources, { recursive: true });
  return await readBundle(folder, commit);
}

/** Reads the files in the order of their names. The binary keeps their times: they get the commit's. */
async function readBundle(folder: string, { time }: Commit): Promise<string> {
  const names = [...Deno.readDirSync(`${folder}/${BUNDLE}`)].map(({ name }) => name).sort();
  const texts = names.map(async (name) => {
    const path = `${folder}/${BUNDLE}/${name}`;
    await Deno.utime(path, time, time);
    return await Deno.readTextFile(path);
  });
  return (await Promise.all(texts)).join("\n");
}

/** The modules in a bundle, each once, as `main.ts`, `lib/model/values/text.ts` or `node_modules/.deno/ipaddr.js@2.5.0/…/ipaddr.js`. */
export function modulesOf(bundle: string): string[] {
  const headings = bundle.matchAll(/^\/\/ (\S+\.(?:ts|js|mjs|cjs))$/gm);
  return [...new Set([...headings].map(([, path = ""]) => path))];
}

/** The packages in a bundle, as `ipaddr.js@2.5.0`, sorted. */
export function packagesOf(bundle: string): string[] {
  const names = modulesOf(bundle).flatMap((path) => {
    const [, name = "", version] = /^node_modules\/\.deno\/(.+?)@(\d[^/]*)\//.exec(path) ?? [];
    return version === undefined ? [] : [`${name.replace("+", "/")}@${version}`];
  });
  return [...new Set(names)].sort();
}
