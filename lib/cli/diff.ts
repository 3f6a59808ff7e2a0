/**
 * `signpost diff`: shows what some manifests would change in the kernel.
 *
 * @module
 */
import type { CommandOf } from "../config/command.ts";
import { conflictLines } from "../policy/claimed.ts";
import { changesFixedRules } from "../model/kernel/desired.ts";
import { type Cell, colourTable, type Paint, renderReport } from "./output.ts";
import { readNodeState } from "./objects.ts";
import type { QueryContext } from "./context.ts";
import { overlay } from "./proposed.ts";
import { DIFF_VERSION, type DiffReport } from "../verify/diff_report.ts";
import { plain } from "../model/values/text.ts";

type DiffCommand = CommandOf<"diff">;

/**
 * Prints the changes.
 *
 * @returns 0 where nothing would change, 1 where something would
 * @throws {FatalError} if the objects cannot be read
 */
export async function diff(command: DiffCommand, context: QueryContext): Promise<number> {
  const [{ output }, { runtime }] = [command, context];
  const report = await reportOf({ ...context, ...command });
  await runtime.print(renderReport(report, { output, runtime, table: renderDiff }));
  return report.changes.length === 0 ? 0 : 1;
}

type DiffOptions = QueryContext & Pick<DiffCommand, "manifests" | "timeout">;

async function reportOf(options: DiffOptions): Promise<DiffReport> {
  const { configuration, manifests, nodeName } = options;
  // These manifests might be applied, and are no present objects.
  const signpost = { ...configuration.signpost, manifests: [] };
  const { backend, origin, state: { cache, desired } } = await readNodeState({
    ...options,
    configuration: { ...configuration, signpost },
  });
  const changesOf = backend.changesFrom(desired);
  const proposed = await overlay(cache, manifests, options);
  const { change, conflicts } = desired.update(cache, cache.takeDirty());
  const replaces = changesFixedRules(change);
  return {
    diffVersion: DIFF_VERSION,
    node: nodeName,
    mode: backend.traits.name,
    against: "api",
    objects: proposed.names,
    present: origin,
    changes: changesOf({ change, node: desired.node }),
    warnings: [
      ...proposed.warnings,
      ...conflictLines(conflicts),
      ...replaces ? ["the Node changes: all rules would be written again"] : [],
    ],
  };
}

/** Lines with `-` and `+`, and their number. */
function renderDiff(report: DiffReport, paint: Paint): string {
  const { changes, warnings, objects, node, mode } = report;
  const rows: Cell[][] = changes.map((each) => [
    each.change === "add" ? { text: "+", colour: "green" } : { text: "-", colour: "red" },
    each.type,
    each.in,
    each.key,
    each.data,
    each.service,
  ]);
  const what = objects.length === 1 ? objects[0] : `${objects.length} objects`;
  const adds = changes.filter(({ change }) => change === "add").length;
  const summary = changes.length === 0
    ? paint("nothing would change", "green")
    : `${paint(`${adds} to add`, "green")}, ${paint(`${changes.length - adds} to delete`, "red")}`;
  return `${
    paint(`Applying ${plain(what ?? "nothing")}`, "bold")
  } on node ${node}, ${mode} mode, against ` +
    `the present objects: ${summary}\n` +
    warnings.map((each) => `${paint("warning", "yellow")} ${plain(each)}\n`).join("") +
    (changes.length === 0 ? "" : "\n") +
    colourTable([["", "WHAT", "WHERE", "KEY", "DATA", "SERVICE"], ...rows], {
      paint,
      indent: "  ",
    });
}
