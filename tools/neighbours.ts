/**
 * `deno task neighbours`: signpost beside the real programs that share its nodes.
 *
 * Each node is a namespace with a systemd of its own. The run fails if flows die that pass without
 * the neighbour, and `signpost check` reports nothing.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { execute, run } from "../tests/support/command.ts";
import { goProgram } from "./go.ts";
import { installPrograms, TEST_PROGRAMS } from "./programs.ts";
import { type Neighbour, NEIGHBOURS } from "./neighbours/programs.ts";
import { DISTRIBUTIONS, Roots } from "./neighbours/roots.ts";
import { type Mode, MODES, runNeighbour, type Stage } from "./neighbours/run.ts";
import {
  record,
  renderTable,
  type Result,
  silentLosses,
  writeDocuments,
} from "./neighbours/table.ts";
import { complain, say } from "./terminal.ts";

const ROOT = new URL("../", import.meta.url).pathname.replace(/\/$/, "");

const HELP = `deno task neighbours [NAMES...] [options]

Runs signpost beside real programs, each node with a systemd of its own, and sends packets after
each stage. Fails if flows die beside a neighbour and "signpost check" reports nothing. Needs root.

  --mode MODE    ${MODES.join(" or ")}; both by default
  --root NAME    ${Object.keys(DISTRIBUTIONS).join(", ")} (default: debian12)
  --peer PATH    runs this kube-proxy as well
  --cache DIR    keeps root file systems (default: /var/tmp/signpost-neighbours)
  --write-docs   puts the results into docs/data/neighbours.json and docs/compatibility.md

Names: ${Object.keys(NEIGHBOURS).join(", ")}; all of them without names.
`;

/** Runs at a time. They wait for packets most of the time. */
const AT_ONCE = 4;

interface Options {
  readonly names: readonly string[];
  readonly modes: readonly Mode[];
  readonly root: string;
  readonly peer?: string;
  readonly cache: string;
  readonly writesDocs: boolean;
}

function readOptions(args: readonly string[]): Options | undefined {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      "help": { type: "boolean" },
      "mode": { type: "string" },
      "root": { type: "string", default: "debian12" },
      "peer": { type: "string" },
      "cache": { type: "string", default: "/var/tmp/signpost-neighbours" },
      "write-docs": { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  const unknown = positionals.filter((name) => NEIGHBOURS[name] === undefined);
  if (unknown.length > 0) {
    throw new Error(`there is no neighbour ${unknown.join(", ")}: see --help`);
  }
  if (DISTRIBUTIONS[values.root] === undefined) throw new Error(`there is no root ${values.root}`);
  const modes = MODES.filter((mode) => values.mode === undefined || mode === values.mode);
  if (modes.length === 0) throw new Error(`--mode ${values.mode}: write ${MODES.join(" or ")}`);
  return {
    names: positionals.length > 0 ? [...new Set(positionals)] : Object.keys(NEIGHBOURS),
    modes,
    root: values.root,
    ...(values.peer !== undefined && { peer: Deno.realPathSync(values.peer) }),
    cache: values.cache,
    writesDocs: values["write-docs"],
  };
}

/** @returns the exit code */
async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args);
  if (options === undefined) {
    say(HELP.trimEnd());
    return 0;
  }
  const problem = await installPrograms([...TEST_PROGRAMS, "mmdebstrap", "curl"]);
  if (problem !== undefined) throw new Error(problem);
  const roots = new Roots(options.cache);
  const scratch = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "signpost-neighbours-" });
  const peers = [undefined, ...(options.peer === undefined ? [] : [options.peer])];
  const runs = options.names.flatMap((name) =>
    options.modes.flatMap((mode) => peers.map((peer) => ({ name, mode, peer })))
  );
  const results: Result[] = [];
  // The namespaces go with the next run.
  const end = async () => {
    await execute(["pkill", "-KILL", "-P", `${Deno.pid}`]);
    await execute(["rm", "-rf", "--one-file-system", scratch]);
    Deno.exit(130);
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, end);
  try {
    for (const name of options.names) await programsOf(NEIGHBOURS[name]);
    await Deno.mkdir(`${options.cache}/journals`, { recursive: true });
    const waiting = runs.entries();
    const work = async () => {
      for (const [i, each] of waiting) {
        results[i] = await runOne({ ...options, ...each, roots, scratch });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } finally {
    await run(["rm", "-rf", "--one-file-system", scratch]);
  }
  say(renderTable(results.map((each) => record(each, { date: "", commit: "" }))));
  if (options.writesDocs) await writeDocuments(`${ROOT}/`, results);
  const silent = results.flatMap(silentLosses);
  for (const line of silent) say(line);
  const early = results.filter(({ note }) => note !== undefined);
  const tried = results.flatMap(({ stages }) => stages).length + early.length;
  say(`${tried - silent.length} passed, ${silent.length} failed`);
  return silent.length === 0 ? 0 : 1;
}

/** Builds the programs of a neighbour one after the other. */
async function programsOf(neighbour: Neighbour | undefined): Promise<(string | undefined)[]> {
  const { programs = [], build } = neighbour ?? {};
  return await Array.fromAsync(programs, (source) => goProgram(source, build));
}

async function runOne(
  options: Pick<Options, "root" | "cache"> & {
    readonly name: string;
    readonly mode: Mode;
    readonly peer: string | undefined;
    readonly roots: Roots;
    readonly scratch: string;
  },
): Promise<Result> {
  const { name, mode, peer, root, cache, roots, scratch } = options;
  const proxy = peer === undefined ? "signpost" : "kube-proxy";
  const neighbour = NEIGHBOURS[name];
  if (neighbour === undefined) throw new Error(`there is no neighbour ${name}`);
  const stages: Stage[] = [];
  let version = "";
  let note: string | undefined;
  const began = performance.now();
  const journal = `${cache}/journals/${new Date().toISOString()}-${name}-${proxy}-${mode}`;
  const tell = (line: string) => complain(`${name}, ${proxy} ${mode}: ${line}`);
  try {
    const programs = await programsOf(neighbour);
    const missing = programs.indexOf(undefined);
    if (missing >= 0) throw new Error(`${neighbour.programs?.[missing]} cannot be built`);
    version = await runNeighbour({
      neighbour,
      mode,
      ...(peer !== undefined && { peer }),
      lower: await roots.lower(root, neighbour.packages ?? []),
      folder: scratch,
      checkout: ROOT,
      journal,
      programs: programs.filter((program) => program !== undefined),
      onStage: (stage) => {
        stages.push(stage);
        const { passed, total, failures, findings = [], first } = stage;
        const found = findings.map((line) => `check: ${line.slice(0, 200)}`);
        const before = first && [`in the first try, check reported nothing: ${first.join("; ")}`];
        const lines = [`${passed}/${total}`, ...failures, ...found, ...before ?? []];
        tell(`${stage.name}: ${lines.join("\n    ")}`);
      },
    });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    note = error.message.slice(0, 2_000);
    tell(`ended early: ${note}`);
  }
  const seconds = Math.round((performance.now() - began) / 1_000);
  const early = note !== undefined && { note };
  const result = { name, root, proxy, mode, version, stages, seconds, ...early } as const;
  if (silentLosses(result).length === 0) await Deno.remove(journal);
  else tell(`failed; the node's journal: ${journal}`);
  return result;
}

if (import.meta.main) {
  Deno.exit(
    await main(Deno.args).catch((error) => {
      complain(`deno task neighbours: ${error instanceof Error ? error.message : error}`);
      return 2;
    }),
  );
}
