/**
 * `deno task image`: the container image of the binaries in `dist/`, without a container engine. The
 * same commit and binaries give the same bytes.
 *
 * @module
 */
import { parseArgs } from "node:util";
import config from "../deno.json" with { type: "json" };
import { VERSION } from "../lib/model/version.ts";
import { binaryName, TARGETS } from "./compile/arguments.ts";
import { readTarget } from "./compile/binary.ts";
import { readCommit } from "./compile/commit.ts";
import { writeImage } from "./image/layout.ts";
import { type Binary, platformOf, updatePins } from "./image/platform.ts";
import { installPrograms } from "./programs.ts";
import { complain, mebibytes, say } from "./terminal.ts";

const ROOT = new URL("..", import.meta.url).pathname;

const REPOSITORY = new URL(config.repository).pathname;

/** The image's name without its tag. Registries take no capitals; the placeholder is not a name yet. */
export const NAME = `ghcr.io${
  REPOSITORY.startsWith("/OWNER/") ? REPOSITORY : REPOSITORY.toLowerCase()
}`;

const HELP =
  `deno task image: makes DIST/signpost-VERSION-image.tar, an OCI layout of all binaries in DIST

  --dist FOLDER      where the binaries are and the image goes (default dist)
  --binary PATH      only this binary, wherever it is
  --name NAME        the image's name without its tag (default ${NAME})
  --version VERSION  the tag (default that of the source)
  --update           takes the newest packages of Debian 13 from now on, makes no image

containerd, podman and skopeo read it: ctr -n k8s.io images import FILE
SOURCE_DATE_EPOCH is the commit's time.`;

/** Makes the image. @returns the exit code */
async function main(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      help: { type: "boolean" },
      update: { type: "boolean" },
      dist: { type: "string", default: "dist" },
      binary: { type: "string" },
      name: { type: "string", default: NAME },
      version: { type: "string", default: VERSION },
    },
  });
  if (values.help) {
    say(HELP);
    return 0;
  }
  const problem = await installPrograms(["dpkg-deb", "readelf"], { needsRoot: false });
  if (problem !== undefined) {
    complain(`deno task image: ${problem}`);
    return 1;
  }
  const scratch = await Deno.makeTempDir({ prefix: "signpost-image-" });
  try {
    if (values.update) {
      for (const line of await updatePins(scratch)) say(line);
      return 0;
    }
    const dist = values.dist.startsWith("/") ? values.dist : `${ROOT}${values.dist}`;
    const binaries = await findBinaries(dist, values.binary);
    if (binaries.length === 0) {
      complain(
        `${values.binary ?? dist} is no binary for ${TARGETS.join(" or ")}: run deno task compile`,
      );
      return 1;
    }
    const output = `${dist}/signpost-${values.version}-image.tar`;
    await makeImage(binaries, { ...values, output, scratch });
    return 0;
  } finally {
    await Deno.remove(scratch, { recursive: true });
  }
}

/** Returns the binaries in the folder, or the one that is named. */
async function findBinaries(dist: string, named: string | undefined): Promise<Binary[]> {
  const paths = named === undefined
    ? TARGETS.map((target) => `${dist}/${binaryName(target)}`)
    : [named];
  const binaries: Binary[] = [];
  for (const path of paths) {
    const target = await readTarget(path);
    if (target !== undefined) binaries.push({ target, path });
  }
  return binaries;
}

async function makeImage(
  binaries: readonly Binary[],
  { name, version, output, scratch }: {
    readonly name: string;
    readonly version: string;
    readonly output: string;
    readonly scratch: string;
  },
): Promise<void> {
  const platforms = await Array.fromAsync(binaries, (binary) => platformOf(binary, scratch));
  const tagged = `${name}:${version}`;
  const { time, hash: revision } = await readCommit();
  const sizes = await writeImage(platforms, { name: tagged, version, revision, time, output });
  for (const size of sizes) {
    say(
      `${size.architecture}, ${size.name}: ${size.files} files, ${mebibytes(size.unpacked)}, ` +
        `compressed ${mebibytes(size.compressed)}`,
    );
  }
  say(`${output.replace(ROOT, "")}: ${tagged}, ${mebibytes((await Deno.stat(output)).size)}`);
}

if (import.meta.main) Deno.exit(await main(Deno.args));
