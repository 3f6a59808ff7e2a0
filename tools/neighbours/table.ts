/**
 * The results of the neighbours' runs, as text and in the documents.
 *
 * @module
 */
import { run } from "../../tests/support/command.ts";
import { replaceMarked } from "../marked.ts";
import { lossesOf, type Mode, MODES, type Stage } from "./run.ts";

/** One program beside one neighbour. */
export interface Result {
  readonly name: string;
  /** The distribution. */
  readonly root: string;
  readonly proxy: "signpost" | "kube-proxy";
  readonly mode: Mode;
  /** The neighbour's version. */
  readonly version: string;
  readonly stages: readonly Stage[];
  readonly seconds: number;
  /** The reason why the run ended early. */
  readonly note?: string;
}

/** A row of `docs/data/neighbours.json`. */
export interface Recorded extends Omit<Result, "stages" | "note"> {
  readonly flows: number;
  /** The flows that passed, by stage. */
  readonly stages: Readonly<Record<string, number>>;
  /** The kinds of findings of all stages. */
  readonly findings: readonly string[];
  /** As `2026-11-23`. */
  readonly date: string;
  readonly commit: string;
}

/** The results of all runs, below the checkout's root. */
export const RESULTS = "docs/data/neighbours.json";
/** The page that has their tables. */
export const PAGE = "docs/compatibility.md";

const HEAD = `Program | Version | Proxy | ${MODES.join(" | ")} | Findings`;

/** Returns a line for each stage in which flows die that pass without the neighbour, unreported. */
export function silentLosses(result: Result): string[] {
  const { name, proxy, mode, stages, note } = result;
  const where = `${name}, ${proxy} in ${mode} mode`;
  const early = note === undefined ? [] : [`${where}: ended early: ${note}`];
  if (proxy !== "signpost") return early;
  const alone = stages.find((stage) => stage.name === "alone")?.failures ?? [];
  const lost = ({ failures }: Stage) => lossesOf(failures).filter((each) => !alone.includes(each));
  return [
    ...early,
    ...stages.filter((stage) => lost(stage).length > 0 && stage.findings?.length === 0)
      .map((stage) => `${where}, ${stage.name}: check reports nothing: ${lost(stage).join("; ")}`),
  ];
}

/** Shortens a result to a row of the file. */
export function record(
  { stages, note: _, ...result }: Result,
  of: Pick<Recorded, "date" | "commit">,
): Recorded {
  const lines = stages.flatMap(({ findings = [] }) => findings);
  const kinds = lines.flatMap((line) => /\[([a-z0-9-]+)\]/.exec(line)?.[1] ?? []);
  return {
    ...result,
    ...of,
    flows: stages[0]?.total ?? 0,
    stages: Object.fromEntries(stages.map(({ name, passed }) => [name, passed])),
    findings: [...new Set(kinds)].sort(),
  };
}

/** Returns a Markdown table for each system and commit: a row for each neighbour. */
export function renderTables(results: readonly Recorded[]): string {
  const sittings = Map.groupBy(results, ({ root, commit, date }) => `${root} (${commit}, ${date})`);
  const tables = [...sittings].map(([sitting, all]) => {
    const programs = Map.groupBy(all, ({ name, version, proxy }) => {
      const number = /\d+\.[\w.:+~-]*/.exec(version)?.[0] ?? "";
      return `${name} | ${number} | ${proxy}`;
    });
    const rows = [...programs].map(([program, results]) => {
      const flows = MODES.map((mode) =>
        results.filter((each) => each.mode === mode).map(flowsOf).join()
      );
      const findings = new Set(results.flatMap(({ findings }) => findings));
      const reported = [...findings].map((each) => `\`${each}\``).join(", ");
      return `| ${[program, ...flows, reported].join(" | ")} |\n`;
    });
    return `On ${sitting}:\n\n| ${HEAD} |\n|${"---|".repeat(6)}\n${rows.join("")}`;
  });
  return tables.join("\n");
}

/** Such as `40 of 40`, or `19 (started), else 40 of 40`. */
function flowsOf({ stages, flows }: Recorded): string {
  const broken = Object.entries(stages).filter(([, passed]) => passed < flows);
  const parts = [...Map.groupBy(broken, ([, passed]) => passed)].map(([passed, all]) => {
    const names = new Set(all.map(([stage]) => stage.replace(/^(?:after|before): /, "")));
    return `${passed} (${[...names].join(", ")})`;
  });
  const isAll = broken.length === Object.keys(stages).length;
  return [
    ...parts,
    isAll ? `of ${flows}` : `${parts.length > 0 ? "else " : ""}${flows} of ${flows}`,
  ]
    .join(", ");
}

/** Puts the tables into the text of the page. */
export function renderPage(page: string, results: readonly Recorded[]): string {
  return replaceMarked(page, { name: "neighbours", text: renderTables(results) });
}

/** Writes the results that did not end early into the documents, in the place of older ones of the same kind. */
export async function writeDocuments(root: string, results: readonly Result[]): Promise<void> {
  const older = JSON.parse(await Deno.readTextFile(`${root}${RESULTS}`)) as Recorded[];
  const keyOf = ({ name, root, proxy, mode }: Recorded) => `${name} ${root} ${proxy} ${mode}`;
  const date = new Date().toISOString().slice(0, 10);
  const commit = (await run(["git", "-C", root, "rev-parse", "--short=7", "HEAD"])).trim();
  const newer = results.filter(({ note }) => note === undefined)
    .map((result) => record(result, { date, commit }));
  const all = new Map([...older, ...newer].map((each) => [keyOf(each), each]));
  const rows = [...all].sort(([a], [b]) => a < b ? -1 : 1).map(([, row]) => row);
  await Deno.writeTextFile(`${root}${RESULTS}`, `${JSON.stringify(rows, undefined, 2)}\n`);
  const page = await Deno.readTextFile(`${root}${PAGE}`);
  await Deno.writeTextFile(`${root}${PAGE}`, renderPage(page, rows));
}
