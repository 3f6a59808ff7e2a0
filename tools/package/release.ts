/**
 * Names the version, the machine and the commit of a package.
 *
 * @module
 */
import { type Target, TARGETS } from "../compile/arguments.ts";
import { type Commit, dayOf } from "../compile/commit.ts";

/** The release in a package. */
export interface Release {
  readonly target: Target;
  readonly jitless: boolean;
  readonly commit: Commit;
  /** That of `lib/model/version.ts`, or of the test's. */
  readonly version: string;
}

/** Debian's names of the targets' machines. */
export const ARCHITECTURES: Readonly<Record<Target, string>> = {
  [TARGETS[0]]: "amd64",
  [TARGETS[1]]: "arm64",
};

/**
 * Returns the version of a package. A package made between releases sorts before the next release. The revision is
 * Debian's: a release may have more than one package.
 */
export function debianVersion(release: Release): string {
  return `${upstreamVersion(release)}-1`;
}

/** Returns the version in names of archives: `0.1.0`, or `0.1.0~git20261123.0123456` of an untagged commit. */
export function upstreamVersion({ version, commit, jitless }: Release): string {
  const day = dayOf(commit).replaceAll("-", "");
  const isDirty = commit.hash.endsWith("-dirty");
  const between = commit.isTagged
    ? ""
    : `~git${day}.${commit.hash.slice(0, 7)}${isDirty ? ".dirty" : ""}`;
  return `${version}${between}${jitless ? "+jitless" : ""}`;
}
