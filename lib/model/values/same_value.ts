/**
 * Compares two values of the model.
 *
 * @module
 */

/**
 * Compares plain data by content. The order of fields does not count. A field that is `undefined`
 * equals an absent field.
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
