/** Reads lines, and prints untrusted text in messages. */

export function* eachLine(text: string): Generator<string, void> {
  let from = 0;
  for (let end; (end = text.indexOf("\n", from)) >= 0; from = end + 1) yield text.slice(from, end);
  yield text.slice(from);
}

/** Explains why a tab before a YAML field is refused. The parser would read the field as part of the level above. */
export const TAB_INDENTATION = "a tab is not valid as indentation, use spaces";

/** Returns the first line of a YAML text whose field or item is indented with a tab, from 1. JSON may have tabs. */
export function tabIndentedLine(text: string): number | undefined {
  if (/^\s*[{[]/.test(text)) return undefined;
  let number = 0;
  /** The indentation of the line that begins a block of literal text. */
  let block: number | undefined;
  for (const line of eachLine(text)) {
    number++;
    const indentation = line.search(/[^ ]|$/);
    if (block !== undefined && (line.trim() === "" || indentation > block)) continue;
    if (/^ *\t\s*(?:-\s|[^\s#][^#]*:(?:\s|$))/.test(line)) return number;
    block = /(?:^|[\s:])[|>][-+\d]*\s*(?:#.*)?$/.test(line) ? indentation : undefined;
  }
  return undefined;
}

const LONGEST = 80;

/** Prints any value as one printable line of limited length: `"a\nb"`, `40`, `{"name":"web"}`. */
export function show(value: unknown): string {
  const text = plain(toText(value).slice(0, 2 * LONGEST));
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}…`;
}

function toText(value: unknown): string {
  if (typeof value !== "string" && typeof value !== "object") return String(value);
  let left = LONGEST;
  try {
    // Aliases can make a YAML document very much larger than its text. Each value prints at least one character.
    return JSON.stringify(value, (_, each) => left-- > 0 ? each : undefined);
  } catch {
    // A YAML document may contain itself.
    return "(an object that JSON cannot express)";
  }
}

/** Characters that terminals obey or that end lines: control, format, private, separators, surrogates. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Prints any text on one line, with unsafe characters as JSON escapes. All output passes through this function. */
export function plain(text: string): string {
  return text.replace(UNSAFE, (unsafe) => SHORT[unsafe] ?? unicodeEscape(unsafe));
}

function unicodeEscape(character: string): string {
  return Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}

/** Prints untrusted text as one printable line of limited length. Unsafe characters become spaces. */
export function oneLine(text: string, limit = 300): string {
  const line = text.slice(0, 4 * limit).replace(UNSAFE, " ").replace(/ {2,}/g, " ").trim();
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
}

export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return oneLine(String(error));
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  // Deno adds its operation and the path, which the caller names too: `… (os error 2): readfile '/a'`.
  const message = error.message.replace(/( \(os error \d+\)): \w+ '[^]*'$/, "$1");
  return oneLine(message || code || error.name);
}

/** Escapes unsafe characters in all texts and field names of plain data. */
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

export function grouped(value: number): string {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/** Prints a number with its noun: `1 endpoint`, `2 endpoints`. */
export function count(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

/** Prints words to choose from: `bash, zsh or fish`. */
export function alternatives(words: readonly string[]): string {
  return `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

const MOST_NAMED = 5;

/** Names some of many things: `a, b, c, d, e and 3 more`. */
export function shortList(things: Iterable<string>): string {
  const all = [...new Set(things)];
  const named = all.slice(0, MOST_NAMED).join(", ");
  const more = all.length - MOST_NAMED;
  return more > 0 ? `${named} and ${more} more` : named;
}

export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
