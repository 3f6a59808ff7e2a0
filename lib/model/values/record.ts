/** Reads and compares plain data. */

export type JsonObject = Readonly<Record<string, unknown>>;

/** Returns true for an object with fields, which is not a list and not `null`. */
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

/** Compares plain data by content, without the order of fields. A field that is `undefined` equals an absent field. */
export function sameValue(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) {
    return false;
  }
  if (Array.isArray(a) && a.length !== b.length) return false;
  for (const field in a) {
    if (!sameValue(a[field], b[field])) return false;
  }
  for (const field in b) {
    if (!(field in a) && b[field] !== undefined) return false;
  }
  return true;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
