/**
 * The answer of `signpost check` as text for people.
 *
 * @module
 */
import type { Finding, Severity } from "../../model/status.ts";
import { count, plain } from "../../model/values/text.ts";
import { programOf } from "../../observe/human.ts";
import { type Colour, type Paint, textTable } from "../output.ts";
import type { CheckReport } from "./report.ts";

const COLOURS: Readonly<Record<Severity, Colour>> = {
  error: "red",
  warning: "yellow",
  info: "faint",
};

/** What was looked at, then each finding. */
export function checkTable(report: CheckReport, paint: Paint): string {
  const { node, mode, kernel, program, apiServer, daemon, objects, findings } = report;
  const facts = [
    ["mode", `${mode} (${programOf({ nft: program }) || "not usable"}), kernel ${kernel}`],
    ["API server", apiServer || "not asked, objects come from manifests"],
    ["daemon", daemon ? "runs, and its findings are here" : "does not run"],
    ["objects", objects ? "checked" : "not read, so addresses and Services are not checked"],
  ];
  const head = `signpost check on ${node}: ${summary(findings, paint)}\n${textTable(facts, "  ")}`;
  return findings.length === 0 ? head : `${head}\n${renderFindings(findings, paint)}`;
}

function summary(findings: readonly Finding[], paint: Paint): string {
  const counted = (["error", "warning"] as const).flatMap((severity) => {
    const { length } = findings.filter((each) => each.severity === severity);
    return length === 0 ? [] : [paint(count(length, severity), COLOURS[severity])];
  });
  return counted.length === 0 ? paint("all is well", "green") : counted.join(", ");
}

/** Each finding in two lines: what is wrong, and what to do. */
export function renderFindings(findings: readonly Finding[], paint: Paint): string {
  return findings.map(({ id, severity, what, remedy }) =>
    `${paint(severity, COLOURS[severity])} ${plain(what)} [${id}]\n` +
    `  ${paint(plain(remedy), "faint")}\n`
  ).join("");
}
