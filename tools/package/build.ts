/**
 * Writes packages and archives. The same input gives the same bytes.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { run } from "../../tests/support/command.ts";
import { packagesNeeded } from "../libraries.ts";
import { archiveFiles, type Content } from "./content.ts";
import { controlFiles, type Maintainer, packageFiles } from "./debian.ts";
import { ARCHITECTURES, debianVersion, type Release, upstreamVersion } from "./release.ts";
import { MAINTAINER_SCRIPTS } from "./scripts.ts";
import { inTree, makeTar, type PackageFile } from "./tree.ts";

/** The parts of a package. */
export interface BuildOptions {
  readonly release: Release;
  readonly content: Content;
  readonly maintainer: Maintainer;
  /** Path of the binary. */
  readonly binary: string;
  /** The folder that the package goes to; it exists. */
  readonly output: string;
}

/** Makes the `.deb` with dpkg-deb. @returns its name */
export async function buildDebian(options: BuildOptions): Promise<string> {
  const { release, content, maintainer, binary, output } = options;
  const files: readonly PackageFile[] = [
    ...packageFiles(content, { release, maintainer }),
    { path: "usr/bin/signpost", data: await Deno.readFile(binary), mode: 0o755 },
  ];
  const size = files.reduce((sum, { data }) => sum + data.length, 0);
  const libraries = await packagesNeeded(binary);
  const control = controlFiles({ release, maintainer, size, libraries });
  const architecture = ARCHITECTURES[release.target];
  const name = `signpost_${debianVersion(release)}_${architecture}.deb`;
  await inTree([...files, ...control, ...MAINTAINER_SCRIPTS], release.commit.time, async (root) => {
    // One thread: how xz cuts its blocks follows from their number.
    const flags = ["--root-owner-group", "-Zxz", "--threads-max=1"];
    await run(["dpkg-deb", ...flags, "--build", root, `${output}/${name}`], {
      env: { SOURCE_DATE_EPOCH: String(release.commit.time) },
    });
  });
  return name;
}

/** Makes the `.tar.gz` for machines without dpkg. @returns its name */
export async function buildArchive(options: BuildOptions): Promise<string> {
  const { release, content, binary, output } = options;
  const version = upstreamVersion(release).replace("~", "-");
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
