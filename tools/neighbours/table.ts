/** The results of the neighbours' runs, as text and in the documents. @module */
import { run as execute } from "../../tests/support/command.ts";
import { replaceMarked } from "../marked.ts";
import { FLOWS } from "./cluster.ts";
import { CHECKOUT } from "./node.ts";
import { AGAIN, lossesOf, type Mode, MODES, type Stage } from "./run.ts";

/** The result of a run: one proxy beside one neighbour. */
export interface Result {
  readonly name: string;
  /** The distribution. */
  readonly root: string;
  /** The neighbour's version. */
  readonly version: string;
  readonly proxy: "signpost" | "kube-proxy";
  readonly mode: Mode;
  readonly flows: number;
  /** The flows that passed, by stage. */
  readonly stages: Readonly<Record<string, number>>;
  /** The stages that lost a flow, by its name. */
  readonly lost: Readonly<Record<string, string>>;
  /** The kinds of findings of all stages. */
  readonly findings: readonly string[];
}

/** A row of `docs/data/neighbours.json`. Its date is as `2026-11-23`. */
export type Recorded = Result & Readonly<Record<"date" | "commit", string>>;

/** The results of all runs, below the checkout's root. */
export const RESULTS = "docs/data/neighbours.json";
/** The page that has their tables. */
export const PAGE = "docs/compatibility.md";

/** The system of programs without one in their row. */
const COMMON = "debian12";

/** Returns a line for each stage in which flows die that pass without the neighbour, unreported. */
export function silentLosses(stages: readonly Stage[]): string[] {
  const alone = stages.find((stage) => stage.name === "alone")?.failures ?? [];
  return stages.flatMap(({ name, failures, findings }) => {
    const lost = lossesOf(failures).filter((each) => !alone.includes(each));
    const isRepeated = stages.some((stage) => stage.name === name + AGAIN);
    if (lost.length === 0 || findings?.length !== 0 || isRepeated) return [];
    return [`${name}: check reports nothing: ${lost.join("; ")}`];
  });
}

/** Counts the flows of a run's stages. */
export function resultOf(
  run: Pick<Result, "name" | "root" | "version" | "proxy" | "mode">,
  stages: readonly Stage[],
): Result {
  const passed = stages.map(({ name, total, failures }) => [name, total - failures.length]);
  const lost: Record<string, string> = {};
  for (const { name, failures } of stages) {
    for (const flow of failures.map((failure) => failure.replace(/: [^:]*$/, ""))) {
      lost[flow] = lost[flow] === undefined ? name : `${lost[flow]}; ${name}`;
    }
  }
  const lines = stages.flatMap(({ findings = [] }) => findings);
  const kinds = lines.flatMap((line) => /\[([a-z0-9-]+)\]/.exec(line)?.[1] ?? []);
  return {
    ...run,
    flows: stages[0]?.total ?? 0,
    stages: Object.fromEntries(passed),
    lost,
    findings: [...new Set(kinds)].sort(),
  };
}

/** Returns Markdown tables: the fewest flows that passed after a step, and the flows that one proxy alone loses. */
export function renderTable(results: readonly Result[]): string {
  const own = results.filter(({ proxy }) => proxy === "signpost");
  const peerOf = ({ name, root, mode }: Result) =>
    results.find((each) =>
      each.proxy !== "signpost" && each.name === name && each.root === root && each.mode === mode
    );
  const rows = [...Map.groupBy(own, programOf)].map(([program, all]) => {
    const flows = MODES.map((mode) => {
      const result = all.find((each) => each.mode === mode);
      return result ? flowsOf(result, peerOf(result)) : "";
    });
    const findings = new Set(all.flatMap(({ findings }) => findings));
    const reported = [...findings].sort().map((each) => `\`${each}\``);
    const stages = all.flatMap(({ stages }) => Object.keys(stages));
    if (stages.some((name) => name.endsWith(AGAIN))) reported.push("nothing before a second try");
    return [program, [...flows, reported.join(", ")].join(" | ")] as const;
  });
  const differences = own.flatMap((result) => {
    const lost = peerOf(result)?.lost ?? result.lost;
    const cells = `${lostBy(result.lost, lost)} | ${lostBy(lost, result.lost)}`;
    return cells === "none | none" ? [] : [[result.name, `${result.mode} | ${cells}`] as const];
  });
  const head = "Mode | signpost alone loses | kube-proxy alone loses";
  const second = differences.length > 0 ? `\n${tableOf(head, differences)}` : "";
  return tableOf(`${MODES.join(" | ")} | Findings`, rows) + second;
}

/** Returns a table with a line for each result, which names all its programs. */
function tableOf(head: string, rows: readonly (readonly [string, string])[]): string {
  const lines = [...Map.groupBy(rows, ([, result]) => result)].map(([result, all]) =>
    `| ${[...new Set(all.map(([program]) => program))].join(", ")} | ${result} |\n`
  );
  return `| Program | ${head} |\n|${"---|".repeat(4)}\n${lines.join("")}`;
}

function programOf({ name, version, root }: Result): string {
  const program = `${name} ${/\d+(?:\.\d+)+/.exec(version)?.[0] ?? ""}`.trim();
  return root === COMMON ? program : `${program} (${root})`;
}

/** Such as `40 of 40`, or `14 of 40 (kube-proxy: 10)` if that differs. */
function flowsOf(own: Result, peer = own): string {
  const fewest = (stages: Result["stages"]) => Math.min(...Object.values(stages));
  const [flows, flowsOfPeer] = [fewest(own.stages), fewest(peer.stages)];
  return `${flows} of ${own.flows}${flows === flowsOfPeer ? "" : ` (kube-proxy: ${flowsOfPeer})`}`;
}

/** Flows that a cell of the second table names. */
const MOST_NAMED = 4;
/** Flows to several pods: a firewall may drop the way to one of them only. */
const BY_CHANCE = new Set(
  FLOWS.filter(({ to }) => typeof to !== "string" && to.length > 1).map(({ name }) => name),
);

/** Returns the flows that one loses and the other does not; their number if they are many. */
function lostBy(one: Result["lost"], other: Result["lost"]): string {
  const flows = Object.keys(one).filter((flow) => !(flow in other || BY_CHANCE.has(flow)));
  if (flows.length > MOST_NAMED) return `${flows.length} flows`;
  return flows.map((flow) => `\`${flow}\``).join(", ") || "none";
}

/** Puts the table into the text of the page. */
export function renderPage(page: string, results: readonly Recorded[]): string {
  const commits = new Set(results.map(({ date, commit }) => `${commit} (${date})`));
  const when = `Programs without a system ran on ${COMMON}. Commits: ${[...commits].join(", ")}.`;
  return replaceMarked(page, { name: "neighbours", text: `${renderTable(results)}\n${when}\n` });
}

/** Writes results into the documents, in the place of older ones of the same kind. */
export async function writeDocuments(results: readonly Result[]): Promise<void> {
  const [data, page] = [`${CHECKOUT}/${RESULTS}`, `${CHECKOUT}/${PAGE}`];
  const older = JSON.parse(await Deno.readTextFile(data)) as Recorded[];
  const keyOf = ({ name, root, proxy, mode }: Result) => `${name} ${root} ${proxy} ${mode}`;
  const date = new Date().toISOString().slice(0, 10);
  const commit = (await execute(["git", "-C", CHECKOUT, "rev-parse", "--short=7", "HEAD"])).trim();
  const newer = results.map((result) => ({ ...result, date, commit }));
  const all = new Map([...older, ...newer].map((each) => [keyOf(each), each]));
  const rows = [...all].sort(([a], [b]) => a < b ? -1 : 1).map(([, row]) => row);
  await Deno.writeTextFile(data, `${JSON.stringify(rows, undefined, 2)}\n`);
  await Deno.writeTextFile(page, renderPage(await Deno.readTextFile(page), rows));
}
