/**
 * `deno task bench scale`: signpost in clusters of the sizes that people have.
 *
 * @module
 */
import { messageOf } from "../../lib/model/values/errors.ts";
import { describeMachine, describeSitting, makeProgram } from "../program.ts";
import { print, progress } from "../report.ts";
import { readScaleOptions, SCALE_HELP, type ScaleOptions } from "./options.ts";
import { renderPage } from "./page.ts";
import type { FailedShape, ScaleResult, ScaleResults } from "./results.ts";
import { measureBase, measureShape } from "./shape.ts";

const PAGE = new URL("../scale.md", import.meta.url).pathname;

/** Runs it with the arguments that follow `scale`. */
export async function scale(argv: readonly string[]): Promise<void> {
  const options = readScaleOptions(argv);
  if (options.help) return print(SCALE_HELP);
  const folder = await Deno.makeTempDir({ prefix: "signpost-bench-" });
  try {
    await makeProgram(folder);
    const results = await measure(options);
    print(renderPage(results));
    if (results.failed.length > 0) Deno.exitCode = 1;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Writes after each shape, so that a run that is cut short leaves what it has. */
async function measure(options: ScaleOptions): Promise<ScaleResults> {
  const head = { sitting: await describeSitting(), machine: await describeMachine() };
  const { changes } = options;
  const base = await measureBase({ changes, progress });
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
      const measured = await measureShape({ shape, changes, limited, progress });
      shapes.push(measured.result);
      noLimit ||= measured.noLimit;
    } catch (error) {
      // The others are worth measuring all the same.
      const reason = messageOf(error);
      progress(`${shape.services} x ${shape.endpoints} failed: ${reason}`);
      failed.push({ ...shape, reason });
    }
    if (options.writes) await Deno.writeTextFile(PAGE, renderPage(resultsSoFar()));
  }
  return resultsSoFar();
}
