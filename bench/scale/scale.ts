/**
 * `deno task bench scale`: signpost in clusters of the sizes that people have.
 *
 * @module
 */
import { run } from "../../tests/support/command.ts";
import { Libc } from "../libc.ts";
import { describeMachine, makeProgram } from "../program.ts";
import { print, progress } from "../report.ts";
import { readScaleOptions, SCALE_HELP, type ScaleOptions } from "./options.ts";
import { renderPage } from "./page.ts";
import { renderScalePlot } from "./plot.ts";
import type { ScaleResult, ScaleResults, Shape } from "./results.ts";
import { measureBase, measureShape } from "./shape.ts";
import { renderScaleTables } from "./tables.ts";

/** Runs it with the arguments that follow `scale`. */
export async function scale(argv: readonly string[]): Promise<void> {
  const options = readScaleOptions(argv);
  if (options.help) return print(SCALE_HELP);
  if (options.render) {
    if (options.output) await write(await readResults(options.output.json), options.output);
    return;
  }
  const folder = await Deno.makeTempDir({ prefix: "signpost-bench-" });
  try {
    const program = await makeProgram(folder);
    const results = await measure(options, program);
    print(renderScaleTables(results));
    if (options.output) {
      const { json } = options.output;
      const all = { ...results, shapes: await merge(results.shapes, json) };
      await Deno.writeTextFile(json, `${JSON.stringify(all, undefined, 2)}\n`);
      await write(all, options.output);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function measure(options: ScaleOptions, program: string): Promise<ScaleResults> {
  const libc = new Libc();
  const [load = 0] = Deno.loadavg();
  progress("one service");
  const base = await measureBase(libc);
  const shapes: ScaleResult[] = [];
  let noLimit = "";
  for (const shape of options.shapes) {
    const measured = await measureShape(libc, {
      shape,
      changes: options.changes,
      limited: shape.services * shape.endpoints >= options.limitedFrom,
      progress,
    });
    shapes.push(measured.result);
    noLimit ||= measured.noLimit;
  }
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: (await run(["git", "rev-parse", "--short", "HEAD"])).trim(),
    load,
    machine: await describeMachine(),
    program,
    base,
    shapes,
    noLimit,
  };
}

/** Shapes that were not measured this time keep what the file has of them, in the order of the file. */
async function merge(fresh: readonly ScaleResult[], path: string): Promise<ScaleResult[]> {
  const name = ({ services, endpoints }: Shape) => `${services}x${endpoints}`;
  const old = await readResults(path).then(({ shapes }) => shapes, (error) => {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  });
  const all = new Map([...old, ...fresh].map((each) => [name(each), each]));
  return [...all.values()];
}

async function readResults(path: string): Promise<ScaleResults> {
  return JSON.parse(await Deno.readTextFile(path));
}

async function write(
  results: ScaleResults,
  { page, plot }: NonNullable<ScaleOptions["output"]>,
): Promise<void> {
  await Deno.writeTextFile(page, renderPage(results));
  await Deno.writeTextFile(plot, renderScalePlot(results.shapes));
  progress(`wrote ${page} and ${plot}`);
}
