/**
 * Node findings as text for people.
 *
 * @module
 */
import type { Finding, Severity } from "../../model/finding.ts";
import { plain } from "../../model/values/text.ts";
import type { Colour, Paint } from "../output.ts";

const COLOURS: Readonly<Record<Severity, Colour>> = {
  error: "red",
  warning: "yellow",
  info: "faint",
};

/** Each finding in two lines: what is wrong, and what to do. */
export function renderFindings(findings: readonly Finding[], paint: Paint): string {
  return findings.map(({ id, severity, what, remedy }) =>
    `${paint(severity, COLOURS[severity])} ${plain(what)} [${id}]\n` +
    `  ${paint(plain(remedy), "faint")}\n`
  ).join("");
}
