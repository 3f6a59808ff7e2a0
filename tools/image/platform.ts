/**
 * The image of one machine type: Debian's files in one layer, signpost in the next.
 *
 * @module
 */
import type { Target } from "../compile/arguments.ts";
import { TARGETS } from "../compile/arguments.ts";
import type { Architecture } from "../kernels/packages.ts";
import { neededLibraries, RUNTIME_LIBRARIES } from "../libraries.ts";
import type { Platform } from "./layout.ts";
import {
  nameOf,
  newestPackages,
  type Pin,
  type Pins,
  readPins,
  unpackPins,
  writePins,
} from "./packages.ts";
import { PACKAGES, type Root, rootFiles } from "./root.ts";

/** A binary that becomes an image. */
export interface Binary {
  readonly target: Target;
  readonly path: string;
}

const ARCHITECTURE: Readonly<Record<Target, Architecture>> = {
  "x86_64-unknown-linux-gnu": "amd64",
  "aarch64-unknown-linux-gnu": "arm64",
};

/**
 * Returns the layers around a binary.
 *
 * @param scratch a folder for the packages, which the layers do not need later
 */
export async function platformOf({ target, path }: Binary, scratch: string): Promise<Platform> {
  const libraries = await neededLibraries([path]);
  const { files } = await debianRoot(await readPins(), { target, scratch, libraries });
  const own = [
    { path: "usr/local/bin/signpost", data: await Deno.readFile(path), mode: 0o755 },
    // The command of kubeadm's DaemonSet.
    { path: "usr/local/bin/kube-proxy", data: "signpost", mode: "link" as const },
  ];
  return {
    architecture: ARCHITECTURE[target],
    layers: [{ name: "Debian 13", files }, { name: "signpost", files: own }],
  };
}

/**
 * Pins the newest packages: of all that Debian's would install, those that the image has files of.
 *
 * @returns lines that say how many
 */
export async function updatePins(scratch: string): Promise<string[]> {
  const snapshot = `${new Date().toISOString().replace(/-|T.*/g, "")}T000000Z`;
  const packages: Record<Architecture, readonly Pin[]> = { amd64: [], arm64: [] };
  const lines: string[] = [];
  for (const target of TARGETS) {
    const architecture = ARCHITECTURE[target];
    const all = await newestPackages(PACKAGES, { architecture, folder: `${scratch}/lists` });
    const pins = { snapshot, packages: { ...packages, [architecture]: all } };
    const root = await debianRoot(pins, { target, scratch, libraries: RUNTIME_LIBRARIES });
    const used = new Set(root.packages.map(({ name }) => name));
    packages[architecture] = all.filter((pin) => used.has(nameOf(pin)));
    lines.push(`${architecture}: ${used.size} of ${all.length} packages`);
  }
  await writePins({ snapshot, packages });
  return lines;
}

async function debianRoot(
  { packages, snapshot }: Pins,
  { target, scratch, libraries }: {
    readonly target: Target;
    readonly scratch: string;
    readonly libraries: readonly string[];
  },
): Promise<Root> {
  const architecture = ARCHITECTURE[target];
  const folder = `${scratch}/${architecture}`;
  const unpacked = await unpackPins(packages[architecture], { folder, snapshot });
  return await rootFiles(unpacked, { triplet: target.replace("-unknown", ""), libraries });
}
