/**
 * Writes packages and archives. The same input gives the same bytes.
 *
 * @module
 */
import { createHash } from "node:crypto";
import config from "../../deno.json" with { type: "json" };
import { run } from "../../tests/support/command.ts";
import { glibcVersion, packagesNeeded } from "../libraries.ts";
import { archiveFiles, type Content } from "./content.ts";
import { packageFiles } from "./files.ts";
import { apkVersion, ARCHITECTURES, packageVersion, type Release } from "./release.ts";
import { inTree, makeTar, type PackageFile } from "./tree.ts";

/** The parts of a package. */
export interface BuildOptions {
  /** Path of the program. */
  readonly nfpm: string;
  readonly release: Release;
  readonly content: Content;
  /** The maintainer's name and address, as Debian writes it. */
  readonly maintainer: string;
  /** Path of the binary. */
  readonly binary: string;
  /** The folder that the package goes to; it exists. */
  readonly output: string;
}

/** Added to nfpm.yaml, whose contents are its end, for binaries that are jitless. */
const JITLESS_CONTENTS = ["deb: /lib", "rpm: /usr/lib"].map((each) => {
  const [packager, folder] = each.split(": ");
  const dst = `${folder}/systemd/system/signpost.service.d/jitless.conf`;
  return `  - { src: jitless.conf, dst: ${dst}, packager: ${packager} }\n`;
}).join("");

/**
 * Makes the `.deb`, `.rpm` and `.apk`. A jitless binary has no `.apk`: its drop-in is for systemd.
 *
 * @returns their names
 */
export async function buildPackages(options: BuildOptions): Promise<string[]> {
  const { nfpm, release, content, maintainer, binary, output } = options;
  const yaml = await Deno.readTextFile(new URL("nfpm.yaml", import.meta.url));
  const files: readonly PackageFile[] = [
    { path: "nfpm.yaml", data: yaml + (release.jitless ? JITLESS_CONTENTS : "") },
    ...await packageFiles(content, { release, maintainer }),
    { path: "signpost", data: await Deno.readFile(binary), mode: 0o755 },
  ];
  const variables = {
    HOMEPAGE: config.repository,
    MAINTAINER: maintainer,
    ARCHITECTURE: ARCHITECTURES[release.target],
    DEBIAN_LIBRARIES: (await packagesNeeded(binary)).join(", "),
    GLIBC: await glibcVersion(binary),
    SOURCE_DATE_EPOCH: String(release.commit.time),
  };
  const version = packageVersion(release);
  const apk = apkVersion(release);
  const machine = release.target.replace(/-.*/, "");
  const packages = [
    { version, name: `signpost_${version}-1_${variables.ARCHITECTURE}.deb` },
    { version, name: `signpost-${version}-1.${machine}.rpm` },
    ...release.jitless ? [] : [{ version: apk, name: `signpost-${apk}-r1.${machine}.apk` }],
  ];
  await inTree(files, release.commit.time, async (root) => {
    for (const { version, name } of packages) {
      const packager = name.replace(/^.*\./, "");
      await run([nfpm, "package", "--packager", packager, "--target", `${output}/${name}`], {
        env: { ...variables, VERSION: version },
        cwd: root,
      });
    }
  });
  return packages.map(({ name }) => name);
}

/** Makes the `.tar.gz` for machines without dpkg. @returns its name */
export async function buildArchive(options: BuildOptions): Promise<string> {
  const { release, content, binary, output } = options;
  const version = packageVersion(release).replace("~", "-");
  const top = `signpost-${version}-${release.target.replace(/-.*/, "")}-linux`;
  const files: readonly PackageFile[] = [
    ...archiveFiles(content).map(({ path, text, ...mode }) => ({
      path: `${top}/${path}`,
      data: text,
      ...mode,
    })),
    { path: `${top}/signpost`, data: await Deno.readFile(binary), mode: 0o755 },
  ];
  const name = `${top}.tar.gz`;
  await inTree(files, release.commit.time, async (root) => {
    await makeTar(root, { names: [top], time: release.commit.time, output: `${output}/${name}` });
  });
  return name;
}

/** Makes the archive of the kubectl plug-in, which krew installs. @returns its name */
export async function buildPlugin(
  { content, time, output }: Pick<BuildOptions, "content" | "output"> & { readonly time: number },
): Promise<string> {
  const files: readonly PackageFile[] = [
    { path: "LICENSE", data: content.license },
    { path: "kubectl-signpost", data: content.plugin, mode: 0o755 },
  ];
  const name = "kubectl-signpost.tar.gz";
  const names = files.map(({ path }) => path);
  await inTree(files, time, async (root) => {
    await makeTar(root, { names, time, output: `${output}/${name}` });
  });
  return name;
}

/** Writes `SHA256SUMS` beside the files; `sha256sum -c SHA256SUMS` checks them. */
export async function writeSums(folder: string, names: readonly string[]): Promise<void> {
  const lines = await Promise.all(
    [...names].sort().map(async (name) => {
      const bytes = await Deno.readFile(`${folder}/${name}`);
      return `${createHash("sha256").update(bytes).digest("hex")}  ${name}\n`;
    }),
  );
  await Deno.writeTextFile(`${folder}/SHA256SUMS`, lines.join(""));
}
