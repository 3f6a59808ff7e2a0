/**
 * YAML text in, a plain document out, and the places of keys that a mapping has twice.
 *
 * @module
 */
import { parse } from "@std/yaml";
import { messageOf } from "../../model/values/errors.ts";
import { plain } from "../../model/values/text.ts";

/** A document, or one line that says why there is none. */
export type ParsedYaml =
  | {
    readonly type: "document";
    /** Untrusted. */
    readonly document: unknown;
    /** Where a key is repeated, as text: `conntrack.min`, or `line 4` where the path is not known. */
    readonly repeated: readonly string[];
  }
  | { readonly type: "error"; readonly message: string };

/** Put before a repeated key while the text is parsed. */
const MARK = /^__repeated\d+__/;

/** Repeated keys that are looked up; in a text with more, only the line of one is named. */
const MOST_REPEATED = 50;

/** A key at the beginning of a line, in block style or in JSON that has a line for each key. */
const KEY = /^(\s*(?:- +)*["']?)(?=[\w.-]+["']?\s*:)/;

/**
 * Parses one document. Of a repeated key the last value counts.
 *
 * The parser names only the first repeated key, by its line, and stops there. So that key is marked
 * in the text, and the text is parsed again, until no key is repeated.
 */
export function parseYaml(text: string): ParsedYaml {
  let marked = text;
  let place: string | undefined;
  for (let count = 0;; count++) {
    try {
      const repeated = new Set<string>();
      const document = unmark(parse(marked, { schema: "core" }), { path: "", repeated });
      return { type: "document", document, repeated: [...repeated] };
    } catch (error) {
      const message = firstLine(error);
      const line = /duplicated key at line (\d+)/.exec(message)?.[1];
      if (line === undefined && !(error instanceof WrongMark)) return { type: "error", message };
      place ??= `line ${line}`;
      const next = line === undefined || count === MOST_REPEATED
        ? undefined
        : markLine(marked, { line: Number(line) - 1, mark: `__repeated${count}__` });
      if (next === undefined) return parseLeniently(text, place);
      marked = next;
    }
  }
}

/** What comes behind the repeated key, and what the parser has not seen yet, may be no YAML. */
function parseLeniently(text: string, place: string): ParsedYaml {
  try {
    const document = parse(text, { schema: "core", allowDuplicateKeys: true });
    return { type: "document", document, repeated: [place] };
  } catch (error) {
    return { type: "error", message: firstLine(error) };
  }
}

/** Thrown where a marked key is not the repeated one: several keys are on that line. */
class WrongMark extends Error {}

/** Marks the key at the beginning of a line; `undefined` where there is none, or it is marked. */
function markLine(
  text: string,
  { line, mark }: { readonly line: number; readonly mark: string },
): string | undefined {
  const lines = text.split(/(?<=\r\n|\n|\r(?!\n))/);
  const found = lines[line];
  const start = KEY.exec(found ?? "")?.[1];
  if (found === undefined || start === undefined || MARK.test(found.slice(start.length))) {
    return undefined;
  }
  lines[line] = start + mark + found.slice(start.length);
  return lines.join("");
}

/** Puts the values of marked keys where they belong, and notes their places. */
function unmark(
  value: unknown,
  { path, repeated }: { readonly path: string; readonly repeated: Set<string> },
): unknown {
  if (Array.isArray(value)) {
    return value.map((item, index) => unmark(item, { path: `${path}[${index}]`, repeated }));
  }
  if (typeof value !== "object" || value === null) return value;
  const result = new Map<string, unknown>();
  for (const [key, inner] of Object.entries(value)) {
    const name = key.replace(MARK, "");
    const place = path === "" ? plain(name) : `${path}.${plain(name)}`;
    if (name !== key) {
      if (!result.has(name)) throw new WrongMark();
      repeated.add(place);
    }
    result.set(name, unmark(inner, { path: place, repeated }));
  }
  return Object.fromEntries(result);
}

function firstLine(error: unknown): string {
  const message = messageOf(error);
  return plain((message.split("\n")[0] ?? "").replace(/:$/, ""));
}
