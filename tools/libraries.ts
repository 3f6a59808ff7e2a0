/**
 * The shared libraries that program files name, read with readelf (binutils), for any machine type.
 *
 * @module
 */
import { execute } from "../tests/support/command.ts";

/** Debian's package of each library that a runtime may load. */
const PACKAGES: Readonly<Record<string, string>> = {
  "ld-linux-aarch64.so.1": "libc6",
  "ld-linux-x86-64.so.2": "libc6",
  "libc.so.6": "libc6",
  "libdl.so.2": "libc6",
  "libm.so.6": "libc6",
  "libpthread.so.0": "libc6",
  "librt.so.1": "libc6",
  "libgcc_s.so.1": "libgcc-s1",
  "libz.so.1": "zlib1g",
};

/** The libraries that runtimes need beside those of libc6. */
export const RUNTIME_LIBRARIES: readonly string[] = ["libgcc_s.so.1", "libz.so.1"];

/** Returns the libraries that files name, and their loaders; none for a file that is no ELF file. */
export async function neededLibraries(paths: readonly string[]): Promise<string[]> {
  const { stdout } = await execute(["readelf", "-W", "-d", "-l", ...paths]);
  const loaders = stdout.matchAll(/\[Requesting program interpreter: .*\/(.+)\]/g);
  const needed = stdout.matchAll(/\(NEEDED\).*\[(.+)\]/g);
  return [...new Set([...loaders, ...needed].map(([, name = ""]) => name))];
}

/**
 * Returns the packages of Debian's that a program file needs, as `Depends` has them.
 *
 * @throws {Error} for a library that no known package has
 */
export async function packagesNeeded(path: string): Promise<string[]> {
  const libraries = await neededLibraries([path]);
  const packages = libraries.map((library) => {
    const name = PACKAGES[library];
    if (name !== undefined) return name;
    throw new Error(`${path} needs ${library}: name its package in tools/libraries.ts`);
  });
  const names = [...new Set(packages)].sort();
  const glibc = await glibcVersion(path);
  return names.map((name) => name === "libc6" ? `libc6 (>= ${glibc})` : name);
}

/** Returns the version of glibc that a program file needs; empty if it needs none. */
export async function glibcVersion(path: string): Promise<string> {
  const { stdout } = await execute(["readelf", "-W", "-V", path]);
  return [...stdout.matchAll(/ Name: GLIBC_([\d.]+) /g)].map(([, version = ""]) => version)
    .sort(new Intl.Collator("en", { numeric: true }).compare).at(-1) ?? "";
}
