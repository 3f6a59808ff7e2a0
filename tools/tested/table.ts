/**
 * Lists of what was tested where.
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
  /** Number of commits up to this one. */
  readonly commits: number;
  /** The machines. */
  readonly on: string;
  readonly note?: string;
}

/** Returns the results by place, commit and day. */
function sittingsOf(results: readonly TestedResult[]): ReadonlyMap<string, TestedResult[]> {
  return Map.groupBy(results, ({ commit, date, on }) => `${on} (${commit}, ${date})`);
}

/** Puts a list for each sitting into the text of docs/tested.md: a line for each name, with all its modes. */
export function renderTested(page: string, results: readonly TestedResult[]): string {
  const lists = [...sittingsOf(results)].map(([sitting, rows]) => {
    const lines = [...Map.groupBy(rows, ({ name }) => name)].map(([name, modes]) => {
      const passed = modes.map(({ mode, passed, total }) =>
        `${mode === "all" ? "" : `${mode} `}${passed} of ${total}`
      );
      const notes = modes.flatMap(({ note }) => note ?? []);
      return `- ${name}: ${[passed.join(", "), ...notes].join(". ")}\n`;
    });
    return `On ${sitting}:\n\n${lines.join("")}`;
  });
  return replaceMarked(page, { name: "tested", text: lists.join("\n") });
}

/** Puts a line about the newest results on clusters, and one about all tests, into the text of README.md. */
export function renderTestedSummary(page: string, results: readonly TestedResult[]): string {
  const own = results.find(({ name }) => name === "all tests");
  const sittings = [...sittingsOf(results)].filter(([sitting]) => sitting.includes("clusters"));
  const lines = sittings.slice(-1).map(([sitting, rows]) => {
    const sum = (field: "passed" | "total") => rows.reduce((all, row) => all + row[field], 0);
    const line = `> ${sum("passed")} of ${
      sum("total")
    } tests of Kubernetes passed on ${sitting}.\n`;
    if (own === undefined) return line;
    const { passed, total, commits, commit, date } = own;
    const later = commits - (rows.at(0)?.commits ?? 0);
    return `${line}> ${later} commits later, ${passed} of ${total} of signpost's tests passed (${commit}, ${date}).\n`;
  });
  return replaceMarked(page, { name: "tested", text: lines.join("") });
}
