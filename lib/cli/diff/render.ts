/**
 * The answer of `signpost diff` as text for people.
 *
 * @module
 */
import { plain } from "../../model/values/text.ts";
import { type Cell, colourTable, type Paint } from "../output.ts";
import type { DiffReport } from "../../verify/diff_report.ts";

/** Lines with `-` and `+`, and their number. */
export function renderDiff(report: DiffReport, paint: Paint): string {
  const { changes, warnings, objects, node, mode, against } = report;
  const rows: Cell[][] = changes.map((each) => [
    each.change === "add" ? { text: "+", colour: "green" } : { text: "-", colour: "red" },
    each.type,
    each.in,
    each.key,
    each.data,
    each.service,
  ]);
  const what = objects.length === 1 ? objects[0] : `${objects.length} objects`;
  const before = against === "api" ? "the present objects" : "what the kernel holds";
  const adds = changes.filter(({ change }) => change === "add").length;
  const summary = changes.length === 0
    ? paint("nothing would change", "green")
    : `${paint(`${adds} to add`, "green")}, ${paint(`${changes.length - adds} to delete`, "red")}`;
  return `${
    paint(`Applying ${plain(what ?? "nothing")}`, "bold")
  } on node ${node}, ${mode} mode, against ` +
    `${before}: ${summary}\n` +
    warnings.map((each) => `${paint("warning", "yellow")} ${plain(each)}\n`).join("") +
    (changes.length === 0 ? "" : "\n") +
    colourTable([["", "WHAT", "WHERE", "KEY", "DATA", "SERVICE"], ...rows], {
      paint,
      indent: "  ",
    });
}
