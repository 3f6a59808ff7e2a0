/**
 * All modules of signpost in one file of JavaScript.
 *
 * @module
 */
import { execute } from "../../tests/support/command.ts";
import { BUNDLE, bundleArguments, type Engine } from "./arguments.ts";
import { type Commit, commitModule } from "./commit.ts";

const ROOT = new URL("../..", import.meta.url).pathname;
const SOURCES = ["deno.json", "deno.lock", "main.ts", "lib"];

/** Where the modules of a package are in Deno's cache, as the bundle names them. */
const IN_CACHE = /(?:\.\.\/)+[^\s"']*?\/npm\/[^\s"'/]+\/(?=(?:@[^\s"'/]+\/)?[^\s"'/]+\/\d)/g;

/**
 * Makes `BUNDLE` in a folder, of a copy of the sources in which `lib/model/commit.ts` has the commit;
 * the checkout stays as it is. The same commit gives the same bytes, wherever the folder and Deno's
 * cache are.
 *
 * @returns the text
 * @throws where `deno bundle` does
 */
export async function makeBundle(
  folder: string,
  options: { readonly commit: Commit; readonly engine: Engine },
): Promise<string> {
  const { commit, engine } = options;
  const sources = `${folder}/sources`;
  await Deno.mkdir(sources);
  await execute(["cp", "-r", ...SOURCES.map((name) => `${ROOT}${name}`), sources]);
  await Deno.writeTextFile(`${sources}/lib/model/commit.ts`, commitModule(commit, engine));
  const { code, stderr } = await execute([Deno.execPath(), ...bundleArguments()], { cwd: sources });
  if (code !== 0) throw new Error(`deno bundle failed: ${stderr.trim()}`);
  const text = (await Deno.readTextFile(`${sources}/${BUNDLE}`)).replaceAll(IN_CACHE, "npm/");
  await Deno.remove(sources, { recursive: true });
  await Deno.writeTextFile(`${folder}/${BUNDLE}`, text);
  // The binary keeps the time of its files.
  await Deno.utime(`${folder}/${BUNDLE}`, commit.time, commit.time);
  return text;
}

/** The modules in a bundle, each once, as `main.ts`, `lib/model/values/text.ts` or `npm/zod/4.6.7/v4/core/api.js`. */
export function modulesOf(bundle: string): string[] {
  // Modules that are loaded when they are asked for stand there in pieces.
  const headings = bundle.matchAll(/^\/\/ (\S+\.(?:ts|js|mjs|cjs))$/gm);
  return [...new Set([...headings].map(([, path = ""]) => path))];
}

/** The packages in a bundle, as `zod@4.6.7`, sorted. */
export function packagesOf(bundle: string): string[] {
  const names = modulesOf(bundle).flatMap((path) => {
    const [, name, version] = /^npm\/((?:@[^/]+\/)?[^/]+)\/([^/]+)\//.exec(path) ?? [];
    return name === undefined ? [] : [`${name}@${version}`];
  });
  return [...new Set(names)].sort();
}
