/**
 * `signpost version`: what this program is made of.
 *
 * @module
 */
import { COMMIT, COMMIT_DATE, ENGINE } from "../model/commit.ts";
import type { Build } from "../model/ports/runtime.ts";
import { VERSION } from "../model/version.ts";

/** What the commit, its day and the engine are; constants of the program, but for tests. */
export interface Origin {
  readonly commit: string;
  readonly date: string;
  readonly engine: string;
}

const ORIGIN: Origin = { commit: COMMIT, date: COMMIT_DATE, engine: ENGINE };

/** The report's text, one fact on a line, each line with its line feed. */
export function versionReport({ deno, v8, target }: Build, origin = ORIGIN): string {
  const { commit, date, engine } = origin;
  const facts = [
    `signpost ${VERSION}`,
    `commit: ${commit || "unknown, runs from its source"}`,
    ...date === "" ? [] : [`date: ${date}`],
    `Deno: ${deno}`,
    `engine: ${engine === "v8" ? `V8 ${v8}` : "QuickJS (experimental)"}`,
    `target: ${target}`,
  ];
  return facts.map((fact) => `${fact}\n`).join("");
}
