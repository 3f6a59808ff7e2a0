/**
 * Checks values and documents against the table of settings. It keeps valid values and returns
 * every problem.
 *
 * @module
 */
import { append } from "../../model/values/lists.ts";
import { nearest, plain, show } from "../../model/values/text.ts";
import { boolean, Fault } from "./readers.ts";
import type { Setting } from "../settings/setting.ts";
import { isRecord } from "../../model/values/record.ts";

/** The keys and list positions from the root of a document to a value. */
export type Path = readonly (string | number)[];

/** The kind of a problem: an unknown field, a value of another type, or a value that is not allowed. */
export type ProblemKind = "unknown" | "type" | "value";

/** One problem with its path. The message follows the path. */
export interface Problem {
  readonly path: Path;
  readonly kind: ProblemKind;
  readonly message: string;
}

/** One problem as a line to print. */
export interface ProblemLine {
  /** The setting: `conntrack.min`. */
  readonly setting: string;
  readonly kind: ProblemKind;
  readonly line: string;
}

/** A checked value, `undefined` if unset; or its problems, with paths inside the value. */
export type Checked =
  | { readonly type: "value"; readonly value: unknown }
  | { readonly type: "problems"; readonly problems: readonly Problem[] };

/** Prints a path: `nodePortAddresses[1]`, `iptables.masqueradeBit`. */
export function formatPath(path: Path): string {
  return path.map((key, index) => {
    if (typeof key === "number") return `[${key}]`;
    return (index === 0 ? "" : ".") + plain(key);
  }).join("");
}

/** Checks the value of a setting. As in Go, `null` means unset, in lists and mappings too. */
export function checkValue(setting: Setting<unknown>, value: unknown): Checked {
  if (value === null || value === undefined) return { type: "value", value: undefined };
  switch (setting.shape) {
    case "value":
      return checkOne(setting.read(value), { value, path: [] });
    case "list":
      if (!Array.isArray(value)) return wrongType([], `must be a list, is ${show(value)}`);
      return checkAll(
        value.map((item, index) => [index, item]),
        { read: setting.read, build: (entries) => entries.map(([, item]) => item) },
      );
    case "switches":
      if (!isRecord(value)) {
        return wrongType([], `must be a mapping of names to true or false, is ${show(value)}`);
      }
      return checkAll(Object.entries(value), { read: boolean, build: Object.fromEntries });
  }
}

function checkOne(
  result: unknown,
  { value, path }: { readonly value: unknown; readonly path: Path },
): Checked {
  if (!(result instanceof Fault)) return { type: "value", value: result };
  const message = result.complete ? result.rule : `${result.rule}, is ${show(value)}`;
  return { type: "problems", problems: [{ path, kind: result.kind, message }] };
}

type Entry = readonly [key: string | number, value: unknown];

function checkAll(
  entries: readonly Entry[],
  { read, build }: {
    readonly read: (value: unknown) => unknown;
    readonly build: (entries: readonly Entry[]) => unknown;
  },
): Checked {
  const problems: Problem[] = [];
  const right: Entry[] = [];
  for (const [key, value] of entries) {
    if (value === null || value === undefined) continue;
    const checked = checkOne(read(value), { value, path: [key] });
    if (checked.type === "problems") append(problems, checked.problems);
    else right.push([key, checked.value]);
  }
  return problems.length > 0 ? { type: "problems", problems } : {
    type: "value",
    value: build(right),
  };
}

/**
 * Checks a document with sections.
 *
 * @param document untrusted
 * @param rows the allowed settings, by path
 * @param also other allowed keys, which are not checked
 * @returns the valid values by path, and all problems
 */
export function checkDocument(
  document: unknown,
  { rows, also }: {
    readonly rows: ReadonlyMap<string, Setting<unknown>>;
    readonly also: readonly string[];
  },
): { readonly values: ReadonlyMap<string, unknown>; readonly problems: readonly Problem[] } {
  const values = new Map<string, unknown>();
  const problems: Problem[] = [];
  const paths = [...rows.keys(), ...also];
  const walk = (section: unknown, path: readonly string[]): void => {
    if (section === null || section === undefined) return;
    if (!isRecord(section)) {
      const message = `must be a mapping of fields, is ${show(section)}`;
      problems.push({ path, kind: "type", message });
      return;
    }
    const prefix = path.map((key) => `${key}.`).join("");
    const names = new Set(
      paths.filter((each) => each.startsWith(prefix))
        .map((each) => each.slice(prefix.length).split(".")[0] ?? ""),
    );
    for (const [key, value] of Object.entries(section)) {
      const row = rows.get(prefix + key);
      if (!names.has(key)) problems.push(unknownField([...path, key], names));
      else if (row !== undefined) {
        const checked = checkValue(row, value);
        if (checked.type === "value") values.set(prefix + key, checked.value);
        else {
          problems.push(
            ...checked.problems.map((each) => ({ ...each, path: [...path, key, ...each.path] })),
          );
        }
      } else if (!also.includes(prefix + key)) walk(value, [...path, key]);
    }
  };
  walk(document, []);
  return { values, problems };
}

function unknownField(path: readonly string[], known: Iterable<string>): Problem {
  const meant = nearest(path.at(-1) ?? "", known);
  const hint = meant === undefined ? "" : ` (did you mean ${meant}?)`;
  return { path, kind: "unknown", message: `is not a known field, left out${hint}` };
}

function wrongType(path: Path, message: string): Checked {
  return { type: "problems", problems: [{ path, kind: "type", message }] };
}
