/**
 * Plain objects in data that is not trusted.
 *
 * @module
 */

/** An object of any fields. */
export type Json = Readonly<Record<string, unknown>>;

/** Whether a value is an object with fields: no list, and not `null`. */
export function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What an object has at a path of names; `undefined` where there is none. */
export function fieldAt(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce(
    (inner, name) => isRecord(inner) && Object.hasOwn(inner, name) ? inner[name] : undefined,
    value,
  );
}
