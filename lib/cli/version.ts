/** `signpost version`: prints the release, the commit and the engine of this program. */
import { COMMIT, COMMIT_DATE } from "../model/commit.ts";
import type { Build } from "../model/ports/runtime.ts";
import { VERSION } from "../model/version.ts";

/** Returns the report with one fact on each line. */
export function versionReport(
  { deno, v8, jitless, target }: Build,
  { commit, date } = { commit: COMMIT, date: COMMIT_DATE },
): string {
  const facts = [
    `signpost ${VERSION}`,
    `commit: ${commit || "unknown, runs from its source"}`,
    ...date === "" ? [] : [`date: ${date}`],
    `Deno: ${deno}`,
    `engine: V8 ${v8}${jitless ? ", jitless" : ""}`,
    `target: ${target}`,
  ];
  return facts.map((fact) => `${fact}\n`).join("");
}
