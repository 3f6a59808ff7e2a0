/**
 * `deno task neighbours`: signpost beside the real programs that share its nodes.
 *
 * Each node is a namespace with a systemd of its own. The run fails if flows die that pass without
 * the neighbour, and `signpost check` reports nothing.
 *
 * @module
 */
import { parseArgs, type ParseArgsConfig } from "node:util";
import { execute, run } from "../tests/support/command.ts";
import { goProgram } from "./go.ts";
import { installPrograms, TEST_PROGRAMS } from "./programs.ts";
import { type Neighbour, NEIGHBOURS } from "./neighbours/programs.ts";
import { CACHE, DISTRIBUTIONS, makeRoot, SCRATCH } from "./neighbours/roots.ts";
import { MODES, type RunOptions, runStages, type Stage } from "./neighbours/run.ts";
import { renderTable, type Result, resultOf } from "./neighbours/table.ts";
import { silentLosses, writeDocuments } from "./neighbours/table.ts";
import { complain, say } from "./terminal.ts";

const HELP = `deno task neighbours [NAMES...] [options]

Runs signpost beside real programs, each node with a systemd of its own, and sends packets after
each stage. Fails if flows die beside a neighbour and "signpost check" reports nothing. Needs root.

  --mode MODE    ${MODES.join(" or ")}; both by default
  --root NAME    ${Object.keys(DISTRIBUTIONS).join(", ")} (default: debian12)
  --peer PATH    runs this kube-proxy as well
  --write-docs   puts the results into docs/data/neighbours.json and docs/compatibility.md

Names: ${Object.keys(NEIGHBOURS).join(", ")}; all of them without names.
`;

/** Runs at a time. They wait for packets most of the time. */
const AT_ONCE = 4;

/** A run before it begins. */
type Task = RunOptions & Pick<Result, "name" | "root" | "version">;

const OPTIONS = {
  "help": { type: "boolean" },
  "mode": { type: "string", multiple: true, default: [...MODES] },
  "root": { type: "string", default: "debian12" },
  "peer": { type: "string" },
  "write-docs": { type: "boolean" },
} satisfies ParseArgsConfig["options"];

/** @returns the exit code */
async function main(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS });
  const { root, mode, peer } = values;
  if (values.help) {
    say(HELP.trimEnd());
    return 0;
  }
  const unknown = [
    ...positionals.filter((name) => !Object.hasOwn(NEIGHBOURS, name)),
    ...[root].filter((name) => !Object.hasOwn(DISTRIBUTIONS, name)),
    ...mode.filter((name) => !MODES.some((each) => each === name)),
  ];
  if (unknown.length > 0) throw new Error(`there is no ${unknown.join(", ")}: see --help`);
  const problem = await installPrograms([...TEST_PROGRAMS, "mmdebstrap", "curl"]);
  if (problem !== undefined) throw new Error(problem);
  const modes = MODES.filter((each) => mode.includes(each));
  const peers = [undefined, ...peer === undefined ? [] : [Deno.realPathSync(peer)]];
  const failed: string[] = [];
  const tasks: Task[] = [];
  for (const [name, neighbour] of Object.entries(NEIGHBOURS)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue;
    try {
      const parts = { name, root, neighbour, ...await prepare(neighbour, root) };
      for (const mode of modes) tasks.push(...peers.map((peer) => ({ ...parts, mode, peer })));
    } catch (error) {
      failed.push(`${name}: ${messageOf(error)}`);
    }
  }
  const results = await runAll(tasks, failed);
  say(renderTable(results));
  if (values["write-docs"]) await writeDocuments(results);
  for (const line of failed) say(line);
  say(`${tasks.length} runs, ${failed.length} failed`);
  return failed.length === 0 ? 0 : 1;
}

/** Makes a root file system with a neighbour's packages, and builds its programs. */
async function prepare(
  { packages = [], programs: sources = [], build, version }: Neighbour,
  root: string,
): Promise<Pick<Task, "lower" | "programs" | "version">> {
  const lower = await makeRoot(root, packages);
  const programs: string[] = [];
  for (const source of sources) {
    const program = await goProgram(source, build);
    if (program === undefined) throw new Error(`${source} cannot be built`);
    programs.push(program);
  }
  const database = `--admindir=${lower.replace(/:.*/, "")}/var/lib/dpkg`;
  const query = ["dpkg-query", database, "-W", "-f", "${Version}", packages[0] ?? "nftables"];
  const known = version ?? sources[0]?.replace(/.*@v/, "");
  return { lower, programs, version: known ?? await run(query) };
}

/** Runs some tasks at a time. */
async function runAll(tasks: readonly Task[], failed: string[]): Promise<Result[]> {
  const remove = ["rm", "-rf", "--one-file-system", SCRATCH];
  // The namespaces go with the next run.
  const end = async () => {
    await execute(["pkill", "-KILL", "-P", `${Deno.pid}`]);
    await execute(remove);
    Deno.exit(130);
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, end);
  const results: Result[] = [];
  const waiting = tasks.values();
  const work = async () => {
    for (const task of waiting) results.push(...await finish(task, failed));
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } finally {
    await run(remove);
  }
  return results;
}

/** Runs all stages, and prints the result of each one. @returns nothing if the run ended early */
async function finish(task: Task, failed: string[]): Promise<Result[]> {
  const { name, root, version, mode, peer } = task;
  const proxy = peer === undefined ? "signpost" : "kube-proxy";
  const where = `${name}, ${proxy} in ${mode} mode`;
  const journal = `${CACHE}/${new Date().toISOString()}-${name}-${proxy}-${mode}.journal`;
  const stages: Stage[] = [];
  try {
    for await (const stage of runStages(task, journal)) {
      stages.push(stage);
      const { total, failures, findings = [] } = stage;
      const found = findings.map((line) => `check: ${line.slice(0, 200)}`);
      const lines = [`${total - failures.length}/${total}`, ...failures, ...found];
      complain(`${where}, ${stage.name}: ${lines.join("\n    ")}`);
    }
  } catch (error) {
    failed.push(`${where}: ended early: ${messageOf(error)}\n    the node's journal: ${journal}`);
    return [];
  }
  const silent = silentLosses(stages);
  if (silent.length === 0) await Deno.remove(journal);
  else failed.push(`${where}, ${silent.join("\n    ")}\n    the node's journal: ${journal}`);
  return [resultOf({ name, root, version, proxy, mode }, stages)];
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 2_000) : `${error}`;
}

if (import.meta.main) {
  Deno.exit(
    await main(Deno.args).catch((error) => {
      complain(`deno task neighbours: ${messageOf(error)}`);
      return 2;
    }),
  );
}
