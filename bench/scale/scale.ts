/**
 * `deno task bench scale`: signpost in clusters of the sizes that people have.
 *
 * @module
 */
import { messageOf } from "../../lib/model/values/errors.ts";
import { run } from "../../tests/support/command.ts";
import { Libc } from "../libc.ts";
import { describeMachine, makeProgram } from "../program.ts";
import { print, progress } from "../report.ts";
import { readScaleOptions, SCALE_HELP, type ScaleOptions } from "./options.ts";
import { renderPage } from "./page.ts";
import type { FailedShape, ScaleResult, ScaleResults } from "./results.ts";
import { measureBase, measureShape } from "./shape.ts";
import { renderScaleTables } from "./tables.ts";

/** Runs it with the arguments that follow `scale`. */
export async function scale(argv: readonly string[]): Promise<void> {
  const options = readScaleOptions(argv);
  if (options.help) return print(SCALE_HELP);
  if (options.render) {
    if (options.output) {
      await write(JSON.parse(await Deno.readTextFile(options.output.json)), options.output);
    }
    return;
  }
  const folder = await Deno.makeTempDir({ prefix: "signpost-bench-" });
  try {
    const results = await measure(options, await makeProgram(folder));
    print(renderScaleTables(results));
    if (results.failed.length > 0) Deno.exitCode = 1;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Writes after each shape, so that a run that is cut short leaves what it has. */
async function measure(options: ScaleOptions, program: string): Promise<ScaleResults> {
  const libc = new Libc();
  const [load = 0] = Deno.loadavg();
  const head = {
    date: new Date().toISOString().slice(0, 10),
    commit: (await run(["git", "rev-parse", "--short", "HEAD"])).trim(),
    load,
    machine: await describeMachine(),
    program,
  };
  const { changes } = options;
  const base = await measureBase(libc, { changes, progress });
  const shapes: ScaleResult[] = [];
  const failed: FailedShape[] = [];
  let noLimit = "";
  const resultsSoFar = () => {
    const minutes = performance.now() / 60_000;
    return { ...head, minutes, base, shapes, failed, noLimit };
  };
  for (const shape of options.shapes) {
    const limited = shape.services * shape.endpoints >= options.limitedFrom;
    try {
      const measured = await measureShape(libc, { shape, changes, limited, progress });
      shapes.push(measured.result);
      noLimit ||= measured.noLimit;
    } catch (error) {
      // The others are worth measuring all the same.
      const reason = messageOf(error);
      progress(`${shape.services} x ${shape.endpoints} failed: ${reason}`);
      failed.push({ ...shape, reason });
    }
    if (options.output) await write(resultsSoFar(), options.output);
  }
  return resultsSoFar();
}

async function write(
  results: ScaleResults,
  { json, page }: NonNullable<ScaleOptions["output"]>,
): Promise<void> {
  await Deno.writeTextFile(json, `${JSON.stringify(results, undefined, 2)}\n`);
  await Deno.writeTextFile(page, renderPage(results));
  progress(`wrote ${json} and ${page}`);
}
