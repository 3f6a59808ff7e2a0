/**
 * Tables of what was tested where.
 *
 * @module
 */
import { replaceMarked } from "../marked.ts";

/** A row of docs/tested.json. */
export interface TestedResult {
  readonly name: string;
  readonly mode: string;
  readonly passed: number;
  readonly total: number;
  readonly commit: string;
  /** As `2026-11-24`. */
  readonly date: string;
  /** The machines. */
  readonly on: string;
  readonly note?: string;
}

/** Puts all results into the text of docs/tested.md. */
export function renderTested(page: string, results: readonly TestedResult[]): string {
  const head =
    "| Tests | Mode | Passed | Commit | Day | Where | Note |\n|---|---|---:|---|---|---|---|\n";
  const rows = results.map(({ name, mode, passed, total, commit, date, on, note = "" }) =>
    `| ${name} | ${mode} | ${passed} of ${total} | ${commit} | ${date} | ${on} | ${note} |\n`
  );
  return replaceMarked(page, { name: "tested", text: head + rows.join("") });
}

/** Puts a line for each commit and place into the text of README.md. */
export function renderTestedSummary(page: string, results: readonly TestedResult[]): string {
  const sittings = Map.groupBy(results, ({ commit, date, on }) => `${on} (${commit}, ${date})`);
  const lines = [...sittings].map(([sitting, rows]) => {
    const sum = (field: "passed" | "total") => rows.reduce((all, row) => all + row[field], 0);
    return `> - ${sum("passed")} of ${sum("total")} test runs passed on ${sitting}.\n`;
  });
  return replaceMarked(page, { name: "tested", text: lines.join("") });
}
