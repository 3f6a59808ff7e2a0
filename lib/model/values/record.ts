/**
 * Reads plain objects in untrusted data.
 *
 * @module
 */

/** An object with any fields. */
export type Json = Readonly<Record<string, unknown>>;

/** Returns true for an object with fields: no list, and not `null`. */
export function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the value at a path of field names, or `undefined`. */
export function fieldAt(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce(
    (inner, name) => isRecord(inner) && Object.hasOwn(inner, name) ? inner[name] : undefined,
    value,
  );
}
