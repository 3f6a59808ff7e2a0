/**
 * How values and names of untrusted text appear in messages.
 *
 * @module
 */

/** The lines of a text, without their ends, as `split` gives them: one at a time, where all are too many. */
export function* eachLine(text: string): Generator<string, void> {
  let from = 0;
  for (let end; (end = text.indexOf("\n", from)) >= 0; from = end + 1) yield text.slice(from, end);
  yield text.slice(from);
}

const LONGEST = 80;

/** A value as one line of printable text, cut where it is long: `"a\nb"`, `40`, `a list`. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "a mapping";
  const text = plain(typeof value === "string" ? JSON.stringify(value) : String(value));
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}…`;
}

/**
 * What no message may contain: control and format characters, which terminals obey, log readers split
 * lines at and readers do not see, line separators, halves of characters, and private ones. This is the
 * only place that says so.
 */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/**
 * Text from anywhere on one line that moves no cursor: what is unsafe is written as escapes, as in JSON.
 * Everything that a terminal or a log shows passes through here.
 */
export function plain(text: string): string {
  return text.replace(UNSAFE, (unsafe) => SHORT[unsafe] ?? unicodeEscape(unsafe));
}

function unicodeEscape(character: string): string {
  return Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}

/** Text from anywhere with something else in the place of each unsafe character. */
export function replaceUnsafe(text: string, instead: string): string {
  return text.replace(UNSAFE, instead);
}

/**
 * One printable line of limited length, for what a server, a file or a program says: unsafe characters
 * are blanks.
 *
 * @param text what the outside said
 * @param limit characters kept
 */
export function oneLine(text: string, limit = 300): string {
  const line = replaceUnsafe(text.slice(0, 4 * limit), " ").replace(/ {2,}/g, " ").trim();
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
}

/** What a thrown value says, as one printable line. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return oneLine(String(error));
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return oneLine(error.message || code || error.name);
}

/** A value as part of a message: JSON in plain text, at most 80 characters. */
export function quote(value: unknown): string {
  const text = plain(toJson(value).slice(0, 2 * LONGEST));
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 3)}...` : text;
}

/** A YAML file can hold what JSON cannot: an object that contains itself. */
function toJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return `(${typeof value} that JSON cannot express)`;
  }
}

/** Plain data with all its texts, those of names too, made plain. */
export function plainData<T>(data: T): T {
  return plainValue(data) as T;
}

function plainValue(value: unknown): unknown {
  if (typeof value === "string") return plain(value);
  if (Array.isArray(value)) return value.map(plainValue);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [plain(name), plainValue(each)]),
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

/** `1 endpoint`, `2 endpoints`. */
export function count(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}
