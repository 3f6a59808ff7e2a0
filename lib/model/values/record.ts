/** Reads and compares plain data. */

export type JsonObject = Readonly<Record<string, unknown>>;

/** Returns true for an object with fields: no list, and not `null`. */
export function isRecord(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the value at a path of field names, or `undefined`. */
export function fieldAt(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce(
    (inner, name) => isRecord(inner) && Object.hasOwn(inner, name) ? inner[name] : undefined,
    value,
  );
}

/** Parses JSON; `undefined` if the text is not JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Compares plain data by content, without the order of fields. A field that is `undefined` equals an absent one. */
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
