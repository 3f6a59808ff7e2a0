/**
 * Text that is shown again and again in a terminal.
 *
 * @module
 */
import type { Runtime } from "../model/ports/runtime.ts";

/**
 * Writes over what is on the screen, line by line, so that nothing flickers; what is too much is cut off.
 *
 * @param hint the last line, which says how to end it
 */
export function redraw(
  text: string,
  { runtime, hint }: { readonly runtime: Pick<Runtime, "terminalSize">; readonly hint: string },
): string {
  const { columns, rows } = runtime.terminalSize();
  const room = Math.max(0, rows - 3);
  const lines = [...text.trimEnd().split("\n").slice(0, room), "", hint].slice(0, rows - 1);
  return `\x1b[H${lines.map((line) => `${cut(line, columns)}\x1b[K\n`).join("")}\x1b[J`;
}

/** The line's first letters; the sequences that change colours take no place. */
function cut(line: string, columns: number): string {
  const parts = line.split(/(\p{Cc}\[\d+m)/u);
  let left = columns;
  return parts.map((part, i) => {
    if (i % 2 === 1) return part;
    const shown = part.slice(0, left);
    left -= shown.length;
    return shown;
  }).join("");
}
