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

/** The names of the targets' machines in Debian, in Go and for nfpm. */
export const ARCHITECTURES: Readonly<Record<Target, string>> = {
  [TARGETS[0]]: "amd64",
  [TARGETS[1]]: "arm64",
};

/**
 * Returns the version: `0.1.0`, or `0.1.0~git20261123.0123456` of an untagged commit. dpkg and rpm sort it before the
 * next release.
 */
export function packageVersion({ version, commit, jitless }: Release): string {
  const isDirty = commit.hash.endsWith("-dirty");
  const between = commit.isTagged
    ? ""
    : `~git${day(commit)}.${commit.hash.slice(0, 7)}${isDirty ? ".dirty" : ""}`;
  return `${version}${between}${jitless ? "+jitless" : ""}`;
}

/** Returns the version for apk, which takes no letters but those of its own suffixes. */
export function apkVersion({ version, commit }: Release): string {
  return commit.isTagged ? version : `${version}_pre${day(commit)}`;
}

function day(commit: Commit): string {
  return dayOf(commit).replaceAll("-", "");
}
