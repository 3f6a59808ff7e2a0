/**
 * Packages for tests: of this checkout's files, around a binary that stands in for the real one.
 */
import { buildArchive, type BuildOptions, buildPackages } from "../../../tools/package/build.ts";
import { goProgram, NFPM } from "../../../tools/go.ts";
import { readContent } from "../../../tools/package/content.ts";
import type { Release } from "../../../tools/package/release.ts";
import { makeFolder, type TestFolder } from "../../support/folder.ts";

const nfpm = await goProgram(NFPM);

export const lacksNfpm = nfpm === undefined;

export const RELEASE: Release = {
  target: "x86_64-unknown-linux-gnu",
  jitless: false,
  commit: { hash: "0123456789ab", time: 1_795_000_000, isTagged: true },
  version: "0.1.0",
};

/**
 * Packages a binary.
 *
 * @param binary path of what stands in for it
 * @returns the names of the `.deb`, of all packages and of the archive
 */
export async function makePackages(
  output: string,
  { binary, ...changes }: { readonly binary: string } & Partial<Release>,
): Promise<
  { readonly deb: string; readonly packages: readonly string[]; readonly archive: string }
> {
  const options: BuildOptions = {
    nfpm: nfpm ?? "",
    release: { ...RELEASE, ...changes },
    content: await readContent(),
    maintainer: "signpost maintainers <signpost@users.noreply.github.com>",
    binary,
    output,
  };
  const packages = await buildPackages(options);
  return { deb: packages[0] ?? "", packages, archive: await buildArchive(options) };
}

/** Makes a folder that all users may read. */
export async function makeOpenFolder(): Promise<TestFolder> {
  const folder = await makeFolder("packages");
  await Deno.chmod(folder.path, 0o755);
  return folder;
}
