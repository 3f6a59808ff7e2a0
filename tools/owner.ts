/**
 * `deno task owner NAME`: names the account that publishes signpost in deno.json and in all files that users copy from.
 *
 * @module
 */
import config from "../deno.json" with { type: "json" };
import { complain, say } from "./terminal.ts";

const ROOT = new URL("..", import.meta.url).pathname;

/** The folders and files that name the publisher. */
const PLACES = ["deno.json", "README.md", "docs", "examples", "charts"];

/** Matches the publisher's name before the repository's, an image's or a chart's. */
const NAMES =
  /(?<=github(?:usercontent)?\.com\/|ghcr\.io\/|--repo )[\w-]+(?=\/(?:charts\/)?signpost\b)/g;

/** A name of the publisher, and the file that has it. */
interface Mention {
  readonly path: string;
  readonly owner: string;
}

/** The publisher's name in deno.json. */
export const OWNER: string = new URL(config.repository).pathname.split("/")[1] ?? "";

/** The same in names of images. Registries take no capitals; the placeholder is no name yet. */
export const IMAGE_OWNER = OWNER === "OWNER" ? OWNER : OWNER.toLowerCase();

/** Returns all mentions of a publisher. */
export async function findOwners(): Promise<Mention[]> {
  const paths = (await Promise.all(PLACES.map((path) => textFiles(path)))).flat();
  const found = paths.map(async (path) => {
    const text = await Deno.readTextFile(ROOT + path);
    return [...text.matchAll(NAMES)].map(([owner]) => ({ path, owner }));
  });
  return (await Promise.all(found)).flat();
}

async function textFiles(path: string): Promise<string[]> {
  if ((await Deno.stat(ROOT + path)).isFile) {
    return /\.(?:md|ya?ml|json|tpl|sh)$/.test(path) ? [path] : [];
  }
  const names = (await Array.fromAsync(Deno.readDir(ROOT + path))).map(({ name }) => name).sort();
  return (await Promise.all(names.map((name) => textFiles(`${path}/${name}`)))).flat();
}

/** Replaces the name in all files. @returns the exit code */
async function main([name = ""]: readonly string[]): Promise<number> {
  if (!/^[a-z\d]+(?:-[a-z\d]+)*$/i.test(name)) {
    complain("deno task owner NAME: name the GitHub account that publishes signpost");
    return 1;
  }
  for (const path of new Set((await findOwners()).map(({ path }) => path))) {
    const text = await Deno.readTextFile(ROOT + path);
    // Registries take no capitals.
    const renamed = text.replace(
      NAMES,
      (_, offset: number) => text.slice(0, offset).endsWith("ghcr.io/") ? name.toLowerCase() : name,
    );
    await Deno.writeTextFile(ROOT + path, renamed);
    say(path);
  }
  return 0;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
