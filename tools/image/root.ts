/**
 * The files of the image, taken from unpacked packages: programs, what they load, and nothing else.
 *
 * @module
 */
import { dirname, join } from "node:path/posix";
import { neededLibraries } from "../libraries.ts";
import type { PackageFile } from "../package/tree.ts";
import type { Unpacked } from "./packages.ts";

/** The programs that signpost runs; `cat` and `ip` to take over from kube-proxy's ipvs mode. */
export const PROGRAMS: readonly string[] = [
  ...["nft", "conntrack", "choom", "pgrep", "sysctl", "ip", "ipvsadm", "ipset", "cat"],
  ...["ip", "ip6"].flatMap((family) =>
    ["", "-nft", "-legacy"].flatMap((variant) =>
      ["", "-save", "-restore"].map((suffix) => `${family}tables${variant}${suffix}`)
    )
  ),
];

/** Debian's packages of the programs; netbase has the names of protocols for nft, base-files the system's name. */
export const PACKAGES: readonly string[] = [
  ...["nftables", "conntrack", "util-linux", "procps", "iproute2", "ipvsadm", "ipset"],
  ...["coreutils", "iptables", "netbase", "base-files"],
];

const FILES = ["etc/protocols", "etc/os-release"];

/** Since Debian 12, /bin and the like are links to folders below /usr. */
const LINKS = ["bin", "sbin", "lib", "lib64"];

/** Folders that a daemon with a read-only root needs for its mounts. */
const FOLDERS = ["run/signpost", "var/lib/kube-proxy", "var/lib/signpost"];

/** A file of the image, and where its content is. */
interface Found {
  readonly path: string;
  readonly source: string;
  readonly package: Unpacked;
  /** For a link, the path that it leads to. */
  readonly link?: string;
}

/** The image's files but signpost, and the packages that they are from. */
export interface Root {
  readonly files: readonly PackageFile[];
  readonly packages: readonly Unpacked[];
}

/**
 * Returns what the image has of Debian's packages.
 *
 * @param options.triplet of the machine, such as `x86_64-linux-gnu`
 * @param options.libraries what signpost's own binary loads
 */
export async function rootFiles(
  packages: readonly Unpacked[],
  { triplet, libraries }: { readonly triplet: string; readonly libraries: readonly string[] },
): Promise<Root> {
  const source = new Source(packages, triplet);
  const links: PackageFile[] = LINKS.map((path) => ({ path, data: `usr/${path}`, mode: "link" }));
  for (const name of PROGRAMS) {
    if (await source.addProgram(name)) continue;
    // Debian makes these links when the package is configured.
    const target = name.replace("tables", "tables-nft");
    links.push({ path: `usr/sbin/${name}`, data: target, mode: "link" });
  }
  for (const path of FILES) await source.add(path);
  for (const library of libraries) await source.addLibrary(library);
  await source.addExtensions();
  // Their licences ask for it.
  for (const each of source.used()) await source.addCopyright(each);
  const files = [...source.found.values()].map(async ({ path, source, link }) =>
    link === undefined
      ? {
        path,
        data: await Deno.readFile(source),
        mode: ((await Deno.stat(source)).mode ?? 0) & 0o755,
      }
      : { path, data: link, mode: "link" as const }
  );
  // Scanners read the packages there in images without dpkg.
  const statuses = source.used().map(({ name, control }) => ({
    path: `var/lib/dpkg/status.d/${name}`,
    data: control,
  }));
  const folders = FOLDERS.map((folder) => ({ path: `${folder}/`, data: "" }));
  return {
    files: [...links, ...folders, ...statuses, ...await Promise.all(files)],
    packages: source.used(),
  };
}

/** Finds files in the packages, each with the links on the way to it and the libraries it loads. */
class Source {
  readonly found = new Map<string, Found>();
  readonly #packages: readonly Unpacked[];
  readonly #triplet: string;

  constructor(packages: readonly Unpacked[], triplet: string) {
    this.#packages = packages;
    this.#triplet = triplet;
  }

  /** @returns whether a package has it */
  async addProgram(name: string): Promise<boolean> {
    for (const folder of ["usr/sbin", "usr/bin"]) {
      if (await this.#locate(`${folder}/${name}`) === undefined) continue;
      await this.add(`${folder}/${name}`);
      return true;
    }
    if (/^ip6?tables(?:-save|-restore)?$/.test(name)) return false;
    throw new Error(`no package of the image has the program ${name}`);
  }

  /** The loader is named by the programs with its path, and has a link there. */
  async addLibrary(name: string): Promise<void> {
    const folders = name.startsWith("ld-linux") ? ["usr/lib64", "usr/lib"] : [];
    for (const folder of [...folders, `usr/lib/${this.#triplet}`]) {
      const path = `${folder}/${name}`;
      if (await this.#locate(path) !== undefined) return await this.add(path);
    }
    throw new Error(`no package of the image has the library ${name}`);
  }

  /** Adds what iptables and ip6tables load by name. */
  async addExtensions(): Promise<void> {
    const path = `usr/lib/${this.#triplet}/xtables`;
    const iptables = this.#packages.find(({ name }) => name === "iptables");
    const names = (await Array.fromAsync(Deno.readDir(`${iptables?.folder}/${path}`)))
      .map(({ name }) => name).filter((name) => /^lib(?:xt|ipt|ip6t)_/.test(name));
    // One readelf for all of them.
    const files = await Array.fromAsync(names, (name) => this.#addFile(`${path}/${name}`));
    await this.#addLibraries(files);
  }

  /** Some packages have a link to another one's folder there. */
  async addCopyright({ name, folder }: Unpacked): Promise<void> {
    const path = `usr/share/doc/${name}`;
    const other = await Deno.readLink(`${folder}/${path}`).catch(() => name);
    await this.#addFile(`usr/share/doc/${other}/copyright`);
  }

  /** Returns the packages that files were taken from. */
  used(): Unpacked[] {
    return [...new Set([...this.found.values()].map((each) => each.package))];
  }

  /** Adds a file, and what it loads. */
  async add(path: string): Promise<void> {
    const file = await this.#addFile(path);
    if (file !== undefined) await this.#addLibraries([file]);
  }

  async #addLibraries(files: readonly (string | undefined)[]): Promise<void> {
    const libraries = await neededLibraries(files.filter((file) => file !== undefined));
    for (const library of libraries) await this.addLibrary(library);
  }

  /** Adds a file and the links on the way to it. @returns its path here, `undefined` if it was added before */
  async #addFile(given: string): Promise<string | undefined> {
    const path = given.replace(/^(?:bin|sbin|lib|lib64)\//, "usr/$&");
    if (this.found.has(path)) return undefined;
    const found = await this.#locate(path);
    if (found === undefined) throw new Error(`no package of the image has the file ${path}`);
    this.found.set(path, found);
    if (found.link === undefined) return found.source;
    return await this.#addFile(join("/", dirname(path), found.link).slice(1));
  }

  async #locate(path: string): Promise<Found | undefined> {
    for (const each of this.#packages) {
      const source = `${each.folder}/${path}`;
      const info = await Deno.lstat(source).catch(() => undefined);
      if (info === undefined || info.isDirectory) continue;
      const link = info.isSymlink ? { link: await Deno.readLink(source) } : {};
      return { path, source, package: each, ...link };
    }
    return undefined;
  }
}
