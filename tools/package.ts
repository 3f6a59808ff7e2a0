/**
 * `deno task package`: `.deb`, `.rpm`, `.apk` and `.tar.gz` of the binaries in `dist/`, with checksums and a bill of
 * materials. The same commit and binary give the same bytes.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { NOTICES } from "../lib/cli/licenses/notices.ts";
import { VERSION } from "../lib/model/version.ts";
import { binaryName, TARGETS } from "./compile/arguments.ts";
import { type Commit, readCommit } from "./compile/commit.ts";
import { goProgram, NFPM } from "./go.ts";
import { readPins } from "./image/packages.ts";
import { buildArchive, buildPackages, buildPlugin, writeSums } from "./package/build.ts";
import { readContent } from "./package/content.ts";
import { packageVersion, type Release } from "./package/release.ts";
import { billOfMaterials, type Integrities } from "./package/sbom.ts";
import { installPrograms } from "./programs.ts";
import { complain, mebibytes, say } from "./terminal.ts";

const ROOT = new URL("..", import.meta.url).pathname;

const HELP = `deno task package: packages the binaries that deno task compile has made

  --dist FOLDER      where the binaries are and the packages go (default dist)
  --version VERSION  another version than that of the source

DEBFULLNAME and DEBEMAIL name the maintainer of the packages; SOURCE_DATE_EPOCH is the commit's time.`;

/** Packages what is there. @returns the exit code */
async function main(args: readonly string[]): Promise<number> {
  if (args.includes("--help")) {
    say(HELP);
    return 0;
  }
  const { values: { dist: given, version } } = parseArgs({
    args: [...args],
    options: {
      dist: { type: "string", default: "dist" },
      version: { type: "string", default: VERSION },
    },
  });
  const dist = given.startsWith("/") ? given : `${ROOT}${given}`;
  const problem = await installPrograms(["readelf"], { needsRoot: false });
  if (problem !== undefined) {
    complain(`deno task package: ${problem}`);
    return 1;
  }
  const nfpm = await goProgram(NFPM);
  if (nfpm === undefined) return 1;
  const commit = await readCommit();
  const names = await packageAll(dist, { nfpm, commit, version });
  if (names.length === 0) {
    complain(`${dist} has no binary: run deno task compile`);
    return 1;
  }
  for (const name of names) {
    const { size } = await Deno.stat(`${dist}/${name}`);
    say(`${given}/${name}: ${mebibytes(size)}`);
  }
  say(`${given}/SHA256SUMS`);
  return 0;
}

/** @returns the names of what was made */
async function packageAll(
  dist: string,
  { nfpm, commit, version }: {
    readonly nfpm: string;
    readonly commit: Commit;
    readonly version: string;
  },
): Promise<string[]> {
  const content = await readContent();
  const names: string[] = [];
  for (const jitless of [false, true]) {
    for (const target of TARGETS) {
      const name = binaryName(target, jitless);
      const isThere = await Deno.stat(`${dist}/${name}`).then(() => true, () => false);
      if (!isThere) continue;
      const release = { target, jitless, commit, version };
      const binary = `${dist}/${name}`;
      const options = { nfpm, release, content, maintainer: maintainer(), binary, output: dist };
      names.push(name, ...await buildPackages(options), await buildArchive(options));
    }
  }
  if (names.length === 0) return [];
  names.push(await buildPlugin({ content, time: commit.time, output: dist }));
  names.push(await writeBill(dist, { jitless: false, target: TARGETS[0], commit, version }));
  await writeSums(dist, names);
  return names;
}

async function writeBill(dist: string, release: Release): Promise<string> {
  const { npm } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.lock`)) as { npm: Integrities };
  const version = packageVersion(release).replace("~", "-");
  const bill = billOfMaterials({
    version,
    commit: release.commit,
    notices: NOTICES,
    npm,
    image: await readPins(),
  });
  const name = `signpost-${version}.spdx.json`;
  await Deno.writeTextFile(`${dist}/${name}`, `${JSON.stringify(bill, null, 2)}\n`);
  return name;
}

function maintainer(): string {
  const name = Deno.env.get("DEBFULLNAME") ?? "signpost maintainers";
  return `${name} <${Deno.env.get("DEBEMAIL") ?? "maintainers@signpost.invalid"}>`;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
