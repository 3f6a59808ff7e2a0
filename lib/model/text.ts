/**
 * How values and names of untrusted text appear in messages.
 *
 * @module
 */

const LONGEST = 80;

/** A value as one line of printable text, cut where it is long: `"a\nb"`, `40`, `a list`. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "a mapping";
  const text = plain(typeof value === "string" ? JSON.stringify(value) : String(value));
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}…`;
}

/** Text on one line: control characters and line separators are written as escapes. */
export function plain(text: string): string {
  // Terminals act on them, log readers split lines at them.
  return text.replace(
    /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/**
 * The candidate that a misspelt name most likely means.
 *
 * @returns `undefined` where none is near
 */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let least = Math.min(4, Math.ceil(name.length / 2));
  for (const candidate of candidates) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

/** An integer with commas between groups of three digits. Not by Intl, which QuickJS has in part. */
export function grouped(value: number): string {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/** Levenshtein's distance: insertions, deletions and replacements from one text to the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let line = 1; line <= from.length; line++) {
    const next = [line];
    for (let column = 1; column <= to.length; column++) {
      const replaced = (row[column - 1] ?? 0) + (from[line - 1] === to[column - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
