/**
 * Prints tables, and lines of progress, for people.
 *
 * @module
 */

/** A row: what was measured, and a text for each column. */
export type Row = readonly [label: string, ...cells: string[]];

/** A table with a head, columns aligned to the right but for the first. */
export function renderTable(head: Row, rows: readonly Row[]): string {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column === 0 ? cell.padEnd(width) : cell.padStart(width);
    }).join("  ").trimEnd();
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [line(head), rule, ...rows.map(line)].join("\n") + "\n";
}

/** Milliseconds with as many digits as they are worth. */
export function milliseconds(value: number): string {
  if (Number.isNaN(value)) return "-";
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 100 ? `${value.toFixed(0)} ms` : `${value.toFixed(1)} ms`;
}

/** Bytes as megabytes (10^6). */
export function megabytes(value: number): string {
  return `${(value / 1e6).toFixed(0)} MB`;
}

/** A ratio, with the target that it is held against. */
export function ratio(value: number): string {
  return `${value.toFixed(2)} x`;
}

/** A count, rounded to one digit behind the point. */
export function count(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(1);
}

/** Writes to the standard output. */
export function print(text: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(text));
}

/** Writes a line to the standard error, where progress belongs, with the seconds since the start. */
export function progress(text: string): void {
  const seconds = Math.round(performance.now() / 1000);
  Deno.stderr.writeSync(new TextEncoder().encode(`bench, ${seconds} s: ${text}\n`));
}
