/**
 * The arguments of `deno task kernels`.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { MACHINE_RUNS, NAMES, runOfDay, selectNames } from "./catalog.ts";
import { type Backend, BACKENDS } from "./steps.ts";

/** The request of the command line. */
export interface Options {
  readonly names: readonly string[];
  /** The folder of downloads; by default one of its own, which goes at the end. */
  readonly cache?: string;
  /** The backends to try. */
  readonly backends: readonly Backend[];
  /** A kube-proxy to take over from, in the place of what it has left in a recording. */
  readonly kubeProxy?: string;
  /** True if the documents are to have the results. */
  readonly writesDocs: boolean;
  /** Milliseconds, for everything. */
  readonly limit: number;
}

/** A run takes minutes; this is for the one that hangs. */
const MINUTES_PER_NAME = 40;

/** The text of `--help`. */
export const HELP = `deno task kernels [NAMES...] [options]

Boots Debian's kernels by software emulation (qemu), on a copy-on-write view of this machine's
files, and tries signpost in each: recorded packet flows, and the daemon's start, drift repair,
restart and cleanup. Ends with "N passed, N failed".

  --list             names what there is, and runs nothing
  --of-day           the one of today, none of the machine's own series
  --backend NAME     only ${BACKENDS.join(", ")}; more than once for more than one
  --cache DIR        keeps downloads there for the next time
  --kube-proxy PATH  takes over from this kube-proxy (ipvs), and records what it leaves
  --limit MINUTES    ends everything then (default: ${MINUTES_PER_NAME} for each name)
  --write-docs       puts the results into docs/data/kernels.json and docs/kernels.md

Names: ${NAMES.join(", ")}; all of them without names.
`;

/**
 * Reads the arguments.
 *
 * @param context.day of the year
 * @param context.release of the machine's kernel
 * @returns `"help"` and `"list"` where that is asked for
 * @throws {Error} where an argument is wrong
 */
export function readOptions(
  args: readonly string[],
  context: { readonly day: number; readonly release: string },
): Options | "help" | "list" {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      help: { type: "boolean" },
      list: { type: "boolean" },
      "of-day": { type: "boolean" },
      backend: { type: "string", multiple: true },
      cache: { type: "string" },
      "kube-proxy": { type: "string" },
      limit: { type: "string" },
      "write-docs": { type: "boolean" },
    },
  });
  if (values.help) return "help";
  if (values.list) return "list";
  if (values["of-day"] && positionals.length > 0) {
    throw new Error("--of-day chooses the kernel itself: leave the names out");
  }
  const names = values["of-day"]
    ? [runOfDay(context.day, context.release).name]
    : selectNames(positionals);
  const minutes = Number(values.limit ?? MINUTES_PER_NAME * names.length);
  if (!(minutes > 0)) throw new Error(`--limit ${values.limit}: it is a number of minutes above 0`);
  return {
    names,
    ...(values.cache !== undefined && { cache: values.cache }),
    ...(values["kube-proxy"] !== undefined && { kubeProxy: values["kube-proxy"] }),
    backends: selectBackends(values.backend ?? []),
    writesDocs: values["write-docs"] ?? false,
    limit: minutes * 60_000,
  };
}

function selectBackends(wanted: readonly string[]): Backend[] {
  const unknown = wanted.filter((name) => !(BACKENDS as readonly string[]).includes(name));
  if (unknown.length > 0) {
    throw new Error(`--backend ${unknown.join(", ")}: the names are ${BACKENDS.join(", ")}`);
  }
  return BACKENDS.filter((name) => wanted.length === 0 || wanted.includes(name));
}

/** Returns the output of `--list`. */
export function renderList(): string {
  return MACHINE_RUNS.map(({ name, note }) => `${name.padEnd(20)}${note}\n`).join("");
}
