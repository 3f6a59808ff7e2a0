/**
 * Tables of what was tested where.
 *
 * @module
 */
import { replaceMarked } from "../marked.ts";

/** A row of docs/data/tested.json. */
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

/** Returns the results by place, commit and day. */
function sittingsOf(results: readonly TestedResult[]): ReadonlyMap<string, TestedResult[]> {
  return Map.groupBy(results, ({ commit, date, on }) => `${on} (${commit}, ${date})`);
}

/** Puts a table for each sitting into the text of docs/tested.md. */
export function renderTested(page: string, results: readonly TestedResult[]): string {
  const head = "| Tests | Mode | Passed | Note |\n|---|---|---:|---|\n";
  const tables = [...sittingsOf(results)].map(([sitting, rows]) => {
    const lines = rows.map(({ name, mode, passed, total, note = "" }) =>
      `| ${name} | ${mode} | ${passed} of ${total} | ${note} |\n`
    );
    return `On ${sitting}:\n\n${head}${lines.join("")}`;
  });
  return replaceMarked(page, { name: "tested", text: tables.join("\n") });
}

/** Puts a line about the newest results on clusters into the text of README.md. */
export function renderTestedSummary(page: string, results: readonly TestedResult[]): string {
  const sittings = [...sittingsOf(results)].filter(([sitting]) => sitting.includes("clusters"));
  const lines = sittings.slice(-1).map(([sitting, rows]) => {
    const sum = (field: "passed" | "total") => rows.reduce((all, row) => all + row[field], 0);
    return `> ${sum("passed")} of ${sum("total")} tests of Kubernetes passed on ${sitting}.\n`;
  });
  return replaceMarked(page, { name: "tested", text: lines.join("") });
}
