/**
 * `deno task tested`: records a result in docs/data/tested.json, and writes the tables of the pages from it.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { run } from "../tests/support/command.ts";
import { readCommit } from "./compile/commit.ts";
import { renderTested, renderTestedSummary, type TestedResult } from "./tested/table.ts";

const ROOT = new URL("../", import.meta.url);
const RESULTS = new URL("docs/data/tested.json", ROOT);
const PAGES = [["docs/tested.md", renderTested], ["README.md", renderTestedSummary]] as const;

/** Returns the commit that is checked out. @throws {Error} if files differ from it */
async function cleanCommit(name: string): Promise<string> {
  const { hash } = await readCommit();
  if (hash === "" || hash.endsWith("-dirty")) {
    throw new Error(
      `cannot record ${name}: files differ from the commit; commit them first, or name the tested commit with --commit`,
    );
  }
  return hash.slice(0, 7);
}

/** Returns the number of commits up to a commit. @throws {Error} if git does not know it */
async function countCommits(commit: string): Promise<number> {
  return Number(await run(["git", "-C", ROOT.pathname, "rev-list", "--count", commit]));
}

/** Reads the result that the flags describe, of the named or current commit and the current day. */
async function resultOf(argv: readonly string[]): Promise<TestedResult | undefined> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...argv],
    options: {
      name: text,
      mode: text,
      passed: text,
      total: text,
      on: text,
      commit: text,
      note: text,
    },
  });
  if (values.name === undefined) return undefined;
  const { name, mode = "all", on = "", note } = values;
  const [passed, total] = [Number(values.passed), Number(values.total)];
  if (!Number.isInteger(passed) || !Number.isInteger(total) || on === "") {
    throw new Error(
      `cannot record ${name}: set --passed and --total to numbers, and --on to a place`,
    );
  }
  const commit = values.commit ?? await cleanCommit(name);
  const date = new Date().toISOString().slice(0, 10);
  const commits = await countCommits(commit);
  const rest = note === undefined ? {} : { note };
  return { name, mode, passed, total, commit, date, commits, on, ...rest };
}

async function write(argv: readonly string[]): Promise<void> {
  const recorded = JSON.parse(await Deno.readTextFile(RESULTS)) as TestedResult[];
  const added = await resultOf(argv);
  const kept = recorded.filter(({ name, mode }) => name !== added?.name || mode !== added.mode);
  const results = added === undefined ? recorded : [...kept, added];
  await Deno.writeTextFile(RESULTS, `${JSON.stringify(results, undefined, 2)}\n`);
  for (const [path, render] of PAGES) {
    const page = new URL(path, ROOT);
    await Deno.writeTextFile(page, render(await Deno.readTextFile(page), results));
  }
}

if (import.meta.main) await write(Deno.args);
