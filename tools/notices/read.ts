/**
 * Reads licences and notices of the packages in the binary, from their files in Deno's cache.
 *
 * @module
 */
import type { Notice } from "../../lib/cli/licenses/report.ts";
import { run } from "../../tests/support/command.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** A package in the binary. */
interface Source {
  readonly name: string;
  /** Who publishes it on npm. */
  readonly publisher: string;
  /** The folders and files in the binary, if their headers stand for a file LICENSE. */
  readonly headersIn?: readonly string[];
}

/** `tests/tools/binary_test.ts` holds this list to the bundle. */
const SOURCES: readonly Source[] = [
  {
    name: "@bufbuild/protobuf",
    publisher: "Buf Technologies",
    headersIn: ["dist/esm/wire", "dist/esm/proto-int64.js"],
  },
  { name: "@noble/hashes", publisher: "Paul Miller" },
  {
    name: "deno-std",
    publisher: "Óscar Otero, from the sources of Deno's standard library",
    headersIn: ["yaml", "encoding", "path"],
  },
  { name: "ipaddr.js", publisher: "whitequark" },
];

/** A licence file that all packages under MIT share but for the first lines. */
const MIT_TEXT_OF = "ipaddr.js";

/** Returns Deno's notice, then those of all packages, in the order of their names. */
export async function readNotices(): Promise<Notice[]> {
  const lock = await readLock();
  const cache = await npmCache();
  const mit = await mitText(`${cache}/${MIT_TEXT_OF}`, lock.npm);
  const packages = await Promise.all(SOURCES.map(async ({ name, publisher, headersIn }) => {
    const version = versionOf(name, lock.npm);
    const folder = `${cache}/${name}/${version}`;
    const { license } = JSON.parse(await Deno.readTextFile(`${folder}/package.json`)) as {
      readonly license: string;
    };
    const text = headersIn === undefined
      ? await Deno.readTextFile(`${folder}/LICENSE`)
      : await headersOf(headersIn.map((part) => `${folder}/${part}`));
    const isMitWithoutText = license === "MIT" && !text.includes("Permission is hereby granted");
    const isApacheWithoutText = license.includes("Apache-2.0") && !text.includes(APACHE_TERMS);
    const missing = isMitWithoutText ? mit : isApacheWithoutText ? await apacheText() : "";
    return {
      name,
      version,
      publisher,
      license,
      text: `${text.trim()}\n\n${missing}`.trim(),
    };
  }));
  return [denoNotice(mit), ...packages];
}

/** Returns the source of `lib/cli/licenses/notices.ts`. */
export function noticesModule(notices: readonly Notice[]): string {
  const entries = notices.map((notice) => {
    const fields = Object.entries(notice).map(([name, value]) =>
      `    ${name}: ${name === "text" ? "\n      " : ""}${JSON.stringify(value)},\n`
    );
    return `  {\n${fields.join("")}  },\n`;
  });
  return `/** Made by deno task notices; do not edit. */

/** All packages. */
export const NOTICES = [
${entries.join("")}];
`;
}

async function readLock(): Promise<{ readonly npm: Readonly<Record<string, unknown>> }> {
  return JSON.parse(await Deno.readTextFile(`${ROOT}deno.lock`));
}

function denoNotice(mit: string): Notice {
  const version = Deno.version.deno;
  const text = `Copyright 2018-2026 the Deno authors

${mit}

The runtime is made of further parts, among them V8 (BSD-3-Clause), and packages of
Rust. Deno's sources name them with their licences:
https://github.com/denoland/deno/tree/v${version}`;
  return { name: "Deno", version, publisher: "the Deno authors", license: "MIT", text };
}

function versionOf(name: string, npm: Readonly<Record<string, unknown>>): string {
  const version = Object.keys(npm).find((key) => key.startsWith(`${name}@`))
    ?.slice(name.length + 1);
  if (version === undefined) throw new Error(`deno.lock has no package ${name}`);
  return version.split("_")[0] ?? version;
}

async function mitText(folder: string, npm: Readonly<Record<string, unknown>>): Promise<string> {
  const text = await Deno.readTextFile(`${folder}/${versionOf(MIT_TEXT_OF, npm)}/LICENSE`);
  return text.slice(text.indexOf("Permission is hereby granted")).trim();
}

const APACHE_TERMS = "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION";

/** Returns the licence of signpost itself, without the appendix on how to apply it. */
async function apacheText(): Promise<string> {
  const text = await Deno.readTextFile(`${ROOT}LICENSE`);
  return text.slice(0, text.indexOf("APPENDIX:")).trim();
}

/** Returns the comments at the top of all files, each once. */
async function headersOf(paths: readonly string[]): Promise<string> {
  const files = (await Promise.all(paths.map(filesIn))).flat().sort();
  const headers = await Promise.all(files.map(async (path) => {
    const lines = (await Deno.readTextFile(path)).split("\n");
    const end = lines.findIndex((line) => !line.startsWith("//"));
    return lines.slice(0, end).map((line) => line.replace(/^\/\/ ?/, ""))
      .filter((line) => !/browser compatible/.test(line)).join("\n");
  }));
  return [...new Set(headers.filter((each) => each.includes("Copyright")))].join("\n\n");
}

async function filesIn(path: string): Promise<string[]> {
  if (path.endsWith(".js")) return [path];
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(path)) {
    if (isDirectory || name.endsWith(".js")) found.push(...await filesIn(`${path}/${name}`));
  }
  return found;
}

/** Returns the folder of Deno's cache that has npm's packages. */
async function npmCache(): Promise<string> {
  const { npmCache } = JSON.parse(await run([Deno.execPath(), "info", "--json"])) as {
    readonly npmCache: string;
  };
  for await (const { name, isDirectory } of Deno.readDir(npmCache)) {
    const there = await Deno.stat(`${npmCache}/${name}/${MIT_TEXT_OF}`).catch(() => undefined);
    if (isDirectory && there) return `${npmCache}/${name}`;
  }
  throw new Error(`${npmCache} has no packages: run deno install`);
}
