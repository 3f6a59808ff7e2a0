/** The results of the neighbours' runs, as text and in the documents. @module */
import { run } from "../../tests/support/command.ts";
import { replaceMarked } from "../marked.ts";
import { FLOWS } from "./cluster.ts";
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
  /** The flows that passed, by stage; in the second try if it took two. */
  readonly stages: Readonly<Record<string, number>>;
  /** The flows that passed in the first of two tries, by stage. */
  readonly firstTries?: Readonly<Record<string, number>>;
  /** The stages that lost a flow in any try, by its name. */
  readonly lost: Readonly<Record<string, string>>;
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

const HEAD = `Program | ${MODES.join(" | ")} | Findings`;
/** The system of programs without one in their row. */
const COMMON = "debian12";

/** Returns the name of the flow that went wrong. */
function flowOf(failure: string): string {
  return failure.replace(/: [^:]*$/, "");
}

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
  const lostIn = ({ failures, first = [] }: Stage) => [...failures, ...first].map(flowOf);
  const lost = new Set(stages.flatMap(lostIn));
  const stagesOf = (flow: string) => stages.filter((stage) => lostIn(stage).includes(flow));
  const firstTries = stages.flatMap(({ name, total, first }) =>
    first === undefined ? [] : [[name, total - first.length] as const]
  );
  const namesOf = (all: readonly Stage[]) => all.map(({ name }) => name).join("; ");
  return {
    ...result,
    ...of,
    flows: stages[0]?.total ?? 0,
    stages: Object.fromEntries(stages.map(({ name, passed }) => [name, passed])),
    ...(firstTries.length > 0 && { firstTries: Object.fromEntries(firstTries) }),
    lost: Object.fromEntries([...lost].map((flow) => [flow, namesOf(stagesOf(flow))])),
    findings: [...new Set(kinds)].sort(),
  };
}

/** Returns a Markdown table. A row has all programs with the same results. */
export function renderTable(results: readonly Recorded[]): string {
  const programs = Map.groupBy(results, ({ name, root }) => `${name} ${root}`);
  const rows = [...programs.values()].map((all) => {
    const own = all.filter(({ proxy }) => proxy === "signpost");
    const { name = "", version = "", root } = own[0] ?? {};
    const flows = MODES.map((mode) => flowsOf(all.filter((each) => each.mode === mode)));
    const findings = new Set(own.flatMap(({ findings }) => findings));
    const reported = [...findings].sort().map((each) => `\`${each}\``).join(", ");
    const program = `${name} ${/\d+(?:\.\d+)+/.exec(version)?.[0] ?? ""}`.trim();
    return { program: onSystem(program, root), result: [...flows, reported].join(" | ") };
  });
  return `| ${HEAD} |\n|${"---|".repeat(4)}\n${linesOf(rows)}${renderDifferences(results)}`;
}

/** Returns a line for each result, with all its programs. */
function linesOf(rows: readonly Readonly<Record<"program" | "result", string>>[]): string {
  return [...Map.groupBy(rows, ({ result }) => result)].map(([result, all]) =>
    `| ${[...new Set(all.map(({ program }) => program))].join(", ")} | ${result} |\n`
  ).join("");
}

function onSystem(program: string, root = COMMON): string {
  return root === COMMON ? program : `${program} (${root})`;
}

/**
 * Returns the fewest flows that passed after a step, such as `40 of 40`, or `39 of 40 (first try: 5; kube-proxy: 10)` if
 * a step took two tries, or kube-proxy's number differs.
 */
function flowsOf(results: readonly Recorded[]): string {
  const find = (proxy: Recorded["proxy"]) => results.find((each) => each.proxy === proxy);
  const fewest = (stages: Recorded["stages"] = {}) => Math.min(...Object.values(stages));
  const [own, peer] = [find("signpost"), find("kube-proxy")];
  if (own === undefined) return "";
  const isEqual = peer === undefined || fewest(peer.stages) === fewest(own.stages);
  const more = [
    ...own.firstTries ? [`first try: ${fewest(own.firstTries)}`] : [],
    ...isEqual ? [] : [`kube-proxy: ${fewest(peer.stages)}`],
  ];
  const extra = more.length > 0 ? ` (${more.join("; ")})` : "";
  return `${fewest(own.stages)} of ${own.flows}${extra}`;
}

/** Returns a table of the flows that one proxy alone loses; empty without another proxy. */
function renderDifferences(results: readonly Recorded[]): string {
  const rows = results.filter(({ proxy }) => proxy === "signpost").flatMap((own) => {
    const { name, root, mode, lost } = own;
    const isPeer = (each: Recorded) =>
      each !== own && each.name === name && each.root === root && each.mode === mode;
    const peer = results.find(isPeer)?.lost ?? lost;
    const cells = [lostBy(lost, peer), lostBy(peer, lost)].join(" | ");
    if (cells === "none | none") return [];
    return [{ program: name, result: `${mode} | ${cells}` }];
  });
  const head = "| Program | Mode | signpost alone loses | kube-proxy alone loses |";
  return rows.length > 0 ? `\n${head}\n|${"---|".repeat(4)}\n${linesOf(rows)}` : "";
}

/** Flows that a cell of the second table names. */
const MOST_NAMED = 4;
/** Flows to several pods: a firewall may drop the way to one of them only. */
const BY_CHANCE = new Set(
  FLOWS.filter(({ to }) => typeof to !== "string" && to.length > 1).map(({ name }) => name),
);

/** Returns the flows that one loses and the other does not; their number if they are many. */
function lostBy(one: Recorded["lost"], other: Recorded["lost"]): string {
  const flows = Object.keys(one).filter((flow) => !(flow in other || BY_CHANCE.has(flow)));
  if (flows.length > MOST_NAMED) return `${flows.length} flows`;
  return flows.map((flow) => `\`${flow}\``).join(", ") || "none";
}

/** Puts the table into the text of the page. */
export function renderPage(page: string, results: readonly Recorded[]): string {
  const commits = new Set(results.map(({ date, commit }) => `${commit} (${date})`));
  const hasTwo = results.some(({ firstTries }) => firstTries !== undefined);
  const why = hasTwo ? "Two tries: in the first one, flows died and check reported nothing. " : "";
  const when = `${why}Programs without a system ran on ${COMMON}. Commits: ${
    [...commits].join(", ")
  }.`;
  return replaceMarked(page, { name: "neighbours", text: `${renderTable(results)}\n${when}\n` });
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
