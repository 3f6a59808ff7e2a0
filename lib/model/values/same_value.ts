/**
 * Whether two values of the model are the same, whatever fields they have.
 *
 * @module
 */

/**
 * Compares plain data by content: objects by all their fields, in any order, lists in theirs. A field
 * that is `undefined` is the same as none.
 */
export function sameValue(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (!isObject(one) || !isObject(other) || Array.isArray(one) !== Array.isArray(other)) {
    return false;
  }
  if (Array.isArray(one) && one.length !== other.length) return false;
  for (const field in one) {
    if (!sameValue(one[field], other[field])) return false;
  }
  for (const field in other) {
    if (!(field in one) && other[field] !== undefined) return false;
  }
  return true;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
