/**
 * Checks a document against a schema: what is right is kept, every problem is named.
 *
 * @module
 */
import type * as z from "zod/mini";
import { nearest, plain, show } from "../model/text.ts";

/** Each schema is used once or twice in a run: compiling it first takes longer than it saves. */
const ONCE = { jitless: true };

/** Keys and list positions from the root of a document to a value. */
export type Path = readonly PropertyKey[];

/**
 * What is wrong: a field that the schema does not have, a value of another type, or a value of the
 * right type that is not allowed.
 */
export type ProblemKind = "unknown" | "type" | "value";

/** One problem: where, and what, reading on after the place. */
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

/** What a check gives: the settings without the wrong ones, and the problems. */
export interface Checked<T> {
  readonly settings: T | undefined;
  readonly problems: readonly Problem[];
}

/**
 * Checks a document. Wrong parts are taken out, so that the right ones can be checked further and
 * all problems are found at once.
 *
 * @param schema what the document must be
 * @param document untrusted; not changed
 */
export function check<S extends z.ZodMiniType>(schema: S, document: unknown): Checked<z.output<S>> {
  const first = schema.safeParse(document, ONCE);
  if (first.success) return { settings: first.data, problems: [] };
  const problems = first.error.issues.flatMap((issue) => problemsOf(issue, document));
  const rest = structuredClone(document);
  for (const { path } of problems) remove(rest, path);
  const second = schema.safeParse(rest, ONCE);
  return { settings: second.success ? second.data : undefined, problems };
}

/** A path as people write it: `nodePortAddresses[1]`, `iptables.masqueradeBit`. */
export function formatPath(path: Path): string {
  return path.map((key, index) => {
    if (typeof key === "number") return `[${key}]`;
    return (index === 0 ? "" : ".") + plain(String(key));
  }).join("");
}

/** The value at a path; `undefined` where there is none. */
export function valueAt(document: unknown, path: Path): unknown {
  let value = document;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function problemsOf(issue: z.core.$ZodIssue, document: unknown): Problem[] {
  if (issue.code === "unrecognized_keys") {
    const known = issue.message.split(" ");
    return issue.keys.map((key) => {
      const meant = nearest(key, known);
      const hint = meant === undefined ? "" : ` (did you mean ${meant}?)`;
      const message = `is not a known field, ignored${hint}`;
      return { path: [...issue.path, key], kind: "unknown", message };
    });
  }
  if (issue.code === "invalid_value") {
    const found = valueAt(document, issue.path);
    const is = found === undefined || found === null ? "missing" : show(found);
    const message = `must be ${issue.values.join(" or ")}, is ${is}`;
    return [{ path: issue.path, kind: "type", message }];
  }
  const isValue = issue.code === "custom" && issue.params?.["kind"] === "value";
  return [{ path: issue.path, kind: isValue ? "value" : "type", message: issue.message }];
}

/**
 * Takes a wrong value out of a document. Of a list, the whole of it: the positions of the others
 * would change.
 */
function remove(document: unknown, path: Path): void {
  const position = path.findIndex((key) => typeof key === "number");
  const removed = position < 0 ? path : path.slice(0, position);
  const last = removed.at(-1);
  const parent = valueAt(document, removed.slice(0, -1));
  if (last === undefined || typeof parent !== "object" || parent === null) return;
  Reflect.deleteProperty(parent, last);
}
