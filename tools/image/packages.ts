/**
 * Debian's packages in the image: each is named by its file and its SHA-256 in `debian.json`.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { run } from "../../tests/support/command.ts";
import { type Architecture, Packages } from "../kernels/packages.ts";
import { cacheFolder } from "../unpacked.ts";

/** A file of Debian's archive. */
export interface Pin {
  /** Below the mirror, such as `debian/pool/main/n/nftables/nftables_1.1.3-1_amd64.deb`. */
  readonly path: string;
  readonly sha256: string;
  /** With its epoch, which the file's name leaves out. */
  readonly version: string;
}

/** The content of `debian.json`. */
export interface Pins {
  /** When the packages were looked up; snapshot.debian.org still has them under this time. */
  readonly snapshot: string;
  readonly packages: Readonly<Record<Architecture, readonly Pin[]>>;
}

/** A package in a folder. */
export interface Unpacked {
  readonly pin: Pin;
  readonly name: string;
  readonly folder: string;
  /** The fields that dpkg would have of it. */
  readonly control: string;
}

const FILE = new URL("debian.json", import.meta.url);
const SUITE = "trixie";

/** Returns the pinned packages. */
export async function readPins(): Promise<Pins> {
  return JSON.parse(await Deno.readTextFile(FILE));
}

/** Writes the packages that are pinned from now on. */
export async function writePins(pins: Pins): Promise<void> {
  await Deno.writeTextFile(FILE, `${JSON.stringify(pins, null, 2)}\n`);
}

/**
 * Returns the newest packages of Debian 13 that have the names or that these depend on.
 *
 * @param folder for apt's lists
 */
export async function newestPackages(
  names: readonly string[],
  { architecture, folder }: { readonly architecture: Architecture; readonly folder: string },
): Promise<Pin[]> {
  const packages = new Packages(folder);
  const all = new Set<string>();
  for (const name of names) {
    for (const each of await packages.dependencies(SUITE, name, architecture)) all.add(each);
  }
  return (await packages.files(SUITE, [...all].sort(), architecture)).map((file) => ({
    path: new URL(file.uri).pathname.slice(1),
    sha256: file.sha256,
    version: decodeURIComponent(file.file.split("_")[1] ?? ""),
  }));
}

/** Returns the name of the package. */
export function nameOf({ path }: Pick<Pin, "path">): string {
  return path.replace(/^.*\//, "").replace(/_.*/, "");
}

/** Downloads what is not in the cache, and unpacks it into `folder`. */
export async function unpackPins(
  pins: readonly Pin[],
  { folder, snapshot }: { readonly folder: string; readonly snapshot: string },
): Promise<Unpacked[]> {
  const unpacked: Unpacked[] = [];
  await Deno.mkdir(folder);
  for (const pin of pins) {
    const name = nameOf(pin);
    const target = `${folder}/${name}`;
    const file = await downloaded(pin, snapshot);
    await run(["dpkg-deb", "-x", file, target]);
    const control = await run(["dpkg-deb", "-f", file]);
    unpacked.push({ pin, name, folder: target, control });
  }
  return unpacked;
}

/** @returns the path of the package */
async function downloaded({ path, sha256 }: Pin, snapshot: string): Promise<string> {
  const file = `${cacheFolder()}/debs/${sha256}.deb`;
  if (await Deno.stat(file).then(() => true, () => false)) return file;
  const [archive = "", ...rest] = path.split("/");
  // The mirror drops a package when a newer one comes.
  const places = [
    `https://deb.debian.org/${path}`,
    `https://snapshot.debian.org/archive/${archive}/${snapshot}/${rest.join("/")}`,
  ];
  const problems: string[] = [];
  for (const url of places) {
    const problem = await download(url, { file, sha256 });
    if (problem === undefined) return file;
    problems.push(`${url}: ${problem}`);
  }
  throw new Error(`cannot download a package; ${problems.join("; ")}`);
}

/** @returns what is wrong, `undefined` if the file is there now */
async function download(
  url: string,
  { file, sha256 }: { readonly file: string; readonly sha256: string },
): Promise<string | undefined> {
  try {
    const response = await fetch(url);
    if (!response.ok) {
      await response.body?.cancel();
      return `${response.status} ${response.statusText}`;
    }
    const bytes = await response.bytes();
    const actual = createHash("sha256").update(bytes).digest("hex");
    if (actual !== sha256) return `SHA-256 is ${actual}, must be ${sha256}`;
    await Deno.mkdir(`${cacheFolder()}/debs`, { recursive: true });
    const part = await Deno.makeTempFile({ dir: `${cacheFolder()}/debs`, prefix: "part-" });
    await Deno.writeFile(part, bytes);
    await Deno.rename(part, file);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
