/** Renders reports in the format of `-o`, and tables for people. */
import { stringify } from "@std/yaml/stringify";
import type { OutputFormat } from "../config/command.ts";
import type { Finding } from "../model/status.ts";
import { plain, plainData } from "../model/values/text.ts";
import type { Runtime } from "../model/ports/runtime.ts";

interface ReportOptions<Report> {
  readonly output: OutputFormat;
  readonly runtime: Pick<Runtime, "isTerminal" | "environment">;
  /** Renders the report for people. All its texts are plain already. */
  readonly table: (report: Report, paint: Paint) => string;
}

/** Renders a report as text. A terminal does not obey its names and messages. @param report plain data */
export function renderReport<Report extends object>(
  report: Report,
  { output, runtime, table }: ReportOptions<Report>,
): string {
  switch (output) {
    case "json":
      return `${jsonText(report, 2)}\n`;
    case "yaml":
      return stringify(plainData(report), { lineWidth: -1, skipInvalid: true });
    case "table":
      return table(plainData(report), paintFor(runtime));
  }
}

/** Renders plain data as JSON, and escapes unsafe characters. @param indent blanks for each level; 0: one line */
export function jsonText(data: object, indent: number): string {
  return JSON.stringify(data, undefined, indent).split("\n").map(plain).join("\n");
}

/** The sequences by which a terminal shows a text in a colour, or bold or faint (SGR of ECMA-48). */
const COLOURS = { red: 31, green: 32, yellow: 33, bold: 1, faint: 2 } as const;

export type Colour = keyof typeof COLOURS;

/** Colours a text, if the terminal may show colours. */
export type Paint = (text: string, colour: Colour) => string;

export function painter(isColoured: boolean): Paint {
  return (text, colour) => isColoured ? `\x1b[${COLOURS[colour]}m${text}\x1b[0m` : text;
}

/** The colours of findings, of `check` and of `explain`. */
export const SEVERITY_COLOURS = {
  error: "red",
  warning: "yellow",
  info: "faint",
  note: "faint",
} as const;

/** Renders each finding in two lines: the problem and the remedy, if there is one. */
export function renderFindings(
  findings: readonly (Pick<Finding, "id" | "what" | "remedy"> & {
    readonly severity: keyof typeof SEVERITY_COLOURS;
  })[],
  paint: Paint,
): string {
  return findings.map(({ severity, id, what, remedy }) =>
    `${paint(severity, SEVERITY_COLOURS[severity])} ${plain(what)} [${id}]\n` +
    (remedy === "" ? "" : `  ${paint(plain(remedy), "faint")}\n`)
  ).join("");
}

/** Returns the painter for a terminal, unless FORCE_COLOR or NO_COLOR says otherwise. */
function paintFor(runtime: Pick<Runtime, "isTerminal" | "environment">): Paint {
  const force = runtime.environment("FORCE_COLOR") ?? "";
  if (force !== "") return painter(force !== "0");
  return painter(
    runtime.isTerminal() && (runtime.environment("NO_COLOR") ?? "") === "" &&
      runtime.environment("TERM") !== "dumb",
  );
}

export type Cell = string | { readonly text: string; readonly colour: Colour };

interface TableOptions {
  /** @default no colours */
  readonly paint?: Paint;
  /** The text before each line. @default nothing */
  readonly indent?: string;
  /** The number of columns that are aligned to the right. @default 0 */
  readonly right?: number;
}

/** Renders rows as `textTable` does, with a faint head. @returns `""` if there is only a head */
export function colourTable(
  [head = [], ...rows]: readonly (readonly Cell[])[],
  options: TableOptions,
): string {
  if (rows.length === 0) return "";
  const faint = head.map((cell): Cell => ({ text: textOf(cell), colour: "faint" }));
  return textTable([faint, ...rows], options);
}

/** Renders rows in columns, two spaces apart. A cell cannot move the cursor or begin a line. */
export function textTable(
  rows: readonly (readonly Cell[])[],
  { paint = painter(false), indent = "", right = 0 }: TableOptions = {},
): string {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, i) => widths[i] = Math.max(widths[i] ?? 0, textOf(cell).length));
  }
  return rows.map((row) => {
    const last = row.findLastIndex((cell) => textOf(cell) !== "");
    const line = row.slice(0, last + 1).map((cell, column) => {
      const text = textOf(cell);
      const padding = " ".repeat((widths[column] ?? 0) - text.length);
      const shown = typeof cell === "string" ? text : paint(text, cell.colour);
      if (column < right) return `${padding}${shown}  `;
      return column === last ? shown : `${shown}${padding}  `;
    });
    return `${indent}${line.join("")}\n`;
  }).join("");
}

function textOf(cell: Cell): string {
  return plain(typeof cell === "string" ? cell : cell.text);
}
