/**
 * Reports in the form that `-o` asks for, and tables for people.
 *
 * @module
 */
import { stringify } from "@std/yaml/stringify";
import type { OutputFormat } from "../config/command.ts";
import { plain } from "../config/text.ts";

/**
 * A report as text.
 *
 * @param report plain data
 * @param options.table the same for people
 */
export function renderReport(
  report: object,
  options: { readonly output: OutputFormat; readonly table: () => string },
): string {
  switch (options.output) {
    case "json":
      return `${JSON.stringify(report, undefined, 2)}\n`;
    case "yaml":
      return stringify(report, { lineWidth: -1, skipInvalid: true });
    case "table":
      return options.table();
  }
}

/**
 * Rows in columns, two spaces apart, as one text. The last column is not filled up. What comes
 * from outside cannot move the cursor or begin a line of its own.
 *
 * @param rows the first one is the head, by custom in capital letters
 * @param indent put before each line
 */
export function textTable(rows: readonly (readonly string[])[], indent = ""): string {
  const cells = rows.map((row) => row.map(plain));
  const widths: number[] = [];
  for (const row of cells) {
    row.forEach((cell, i) => widths[i] = Math.max(widths[i] ?? 0, cell.length));
  }
  const line = (row: readonly string[]) =>
    (indent + row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ")).trimEnd();
  return cells.map((row) => `${line(row)}\n`).join("");
}

/** The sequences by which a terminal shows a text in a colour. */
const COLOURS = { red: 31, green: 32, yellow: 33 } as const;

/** Puts a text in a colour, where the output is a terminal that may show colours. */
export type Paint = (text: string, colour: keyof typeof COLOURS) => string;

/** @param isColoured whether colours are to be used */
export function painter(isColoured: boolean): Paint {
  return (text, colour) => isColoured ? `\x1b[${COLOURS[colour]}m${text}\x1b[0m` : text;
}
