/**
 * Reads the commit of this checkout, and its day, for a release.
 *
 * @module
 */
import { execute } from "../../tests/support/command.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** A commit. */
export interface Commit {
  /** The abbreviated hash, with `-dirty` where files differ from it; `""` without git. */
  readonly hash: string;
  /** Seconds since 1970. Everything that is made of this commit has this time in it. */
  readonly time: number;
  /** True if a tag names this commit and nothing differs from it: this is a release. */
  readonly isTagged: boolean;
}

/**
 * The commit that is checked out. `SOURCE_DATE_EPOCH` wins over its time
 * (https://reproducible-builds.org/specs/source-date-epoch/).
 */
export async function readCommit(): Promise<Commit> {
  const git = async (...words: string[]) => {
    const result = await execute(["git", "-C", ROOT, ...words]).catch(() => undefined);
    return result?.code === 0 ? result.stdout.trim() : "";
  };
  const [hash, time, tag] = await Promise.all([
    git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
    git("log", "-1", "--format=%ct"),
    git("describe", "--exact-match", "--tags", "--match=v*"),
  ]);
  return {
    hash,
    time: Number(Deno.env.get("SOURCE_DATE_EPOCH") ?? time),
    isTagged: tag !== "" && !hash.endsWith("-dirty"),
  };
}

/** The day of a commit, as `2026-11-23`. */
export function dayOf({ time }: Commit): string {
  return new Date(time * 1000).toISOString().slice(0, 10);
}

/** The text of `lib/model/commit.ts` in a binary. */
export function commitModule(commit: Commit): string {
  const constants = {
    COMMIT: commit.hash,
    COMMIT_DATE: commit.hash === "" ? "" : dayOf(commit),
  };
  const lines = Object.entries(constants).map(([name, value]) =>
    `export const ${name}: string = ${JSON.stringify(value)};\n`
  );
  return `/** Written by tools/compile.ts. */\n${lines.join("")}`;
}
