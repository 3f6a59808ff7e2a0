/**
 * The results of the neighbours' runs, as text and in the documents.
 *
 * @module
 */
import { run } from "../../tests/support/command.ts";
import { replaceMarked } from "../marked.ts";
import type { Mode, Stage } from "./run.ts";

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
  /** The reason why the run ended early. */
  readonly note?: string;
}

/** A result in `docs/neighbours.json`. */
interface Recorded extends Result {
  /** As `2026-11-23`. */
  readonly date: string;
  readonly commit: string;
}

const RESULTS = "docs/neighbours.json";
const PAGE = "docs/compatibility.md";

/** Returns a line for each stage in which flows die that pass without the neighbour, unreported. */
export function silentLosses(result: Result): string[] {
  const { name, proxy, mode, stages, note } = result;
  const where = `${name}, ${proxy} in ${mode} mode`;
  const early = note === undefined ? [] : [`${where}: ended early: ${note}`];
  if (proxy !== "signpost") return early;
  const alone = stages.find((stage) => stage.name === "alone");
  // Controls are no packets of Services.
  const lost = (stage: Stage) =>
    stage.failures.filter((failure) =>
      !failure.includes(": control: ") && !alone?.failures.includes(failure)
    );
  return [
    ...early,
    ...stages.filter((stage) => lost(stage).length > 0 && stage.findings?.length === 0)
      .map((stage) => `${where}, ${stage.name}: check reports nothing: ${lost(stage).join("; ")}`),
  ];
}

/** Returns a Markdown table: a row for each neighbour, program and mode. */
export function renderTable(results: readonly Result[]): string {
  const rows = results.map((result) => {
    const stages = result.stages.map(({ name, passed, total }) => `${name} ${passed}/${total}`);
    const findings = new Set(
      result.stages.flatMap(({ findings = [] }) =>
        findings.flatMap((line) => /\[([a-z0-9-]+)\]/.exec(line)?.[1] ?? [])
      ),
    );
    const { name, version, root, proxy, mode } = result;
    const reported = [...findings].map((finding) => `\`${finding}\``).join(", ");
    return `| ${name} ${version.replaceAll(/[|\n]/g, " ")} | ${root} | ${proxy} ${mode} | ${
      stages.join(", ")
    } | ${reported} |\n`;
  });
  return `| Neighbour | System | Program | Flows | Findings |\n|---|---|---|---|---|\n${
    rows.join("")
  }`;
}

/** Writes the results into the documents, in the place of older ones of the same kind. */
export async function writeDocuments(root: string, results: readonly Result[]): Promise<void> {
  const older = JSON.parse(
    await Deno.readTextFile(`${root}${RESULTS}`).catch(() => "[]"),
  ) as Recorded[];
  const keyOf = ({ name, root, proxy, mode }: Result) => `${name} ${root} ${proxy} ${mode}`;
  const newer = new Set(results.map(keyOf));
  const date = new Date().toISOString().slice(0, 10);
  const commit = (await run(["git", "-C", root, "rev-parse", "--short=8", "HEAD"])).trim();
  const all = [
    ...older.filter((result) => !newer.has(keyOf(result))),
    ...results.map((result) => ({ ...result, date, commit })),
  ].sort((a, b) => keyOf(a) < keyOf(b) ? -1 : 1);
  await Deno.writeTextFile(`${root}${RESULTS}`, `${JSON.stringify(all, undefined, 2)}\n`);
  const page = await Deno.readTextFile(`${root}${PAGE}`);
  const text = renderTable(all);
  await Deno.writeTextFile(`${root}${PAGE}`, replaceMarked(page, { name: "neighbours", text }));
}
