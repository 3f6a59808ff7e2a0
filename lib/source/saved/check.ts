/**
 * Strict checks of values from a state file, which is as untrusted as everything else.
 *
 * A check takes exactly what signpost itself writes: nothing is missing, nothing is unknown,
 * nothing is put right.
 *
 * @module
 */

/** A state file that cannot be used. The message is one line: what is wrong with it, and where. */
export class StateError extends Error {
  override name = "StateError";
}

/** Returns the value as its type, or throws a `Mismatch`. */
export type Check<T> = (value: unknown) => T;

/** A value that is not what it must be. The path grows on the way out, so that it costs nothing before. */
export class Mismatch extends Error {
  override name = "Mismatch";
  /**
   * @param rule what the value must be
   * @param value what it is
   * @param path where it is, `""` for the value itself; steps such as `.ports` and `[0]`
   */
  constructor(readonly rule: string, readonly value: unknown, readonly path: string = "") {
    super(`${path.replace(/^\./, "")} ${rule}, is ${quote(value)}`.trimStart());
  }
}

/** A value as part of a log line: JSON, no control characters, at most 80 characters. */
export function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? "missing";
  const plain = text.replace(/[\u007f-\u009f\u2028\u2029]/g, "?");
  return plain.length > 80 ? `${plain.slice(0, 77)}...` : plain;
}

/** An object with exactly these fields. The compiler sees to it that none of the type is left out. */
export function record<T extends object>(
  fields: { readonly [F in keyof T]-?: Check<T[F]> },
): Check<T> {
  const names = Object.keys(fields) as (keyof T & string)[];
  return (value) => {
    if (!isJsonObject(value)) throw new Mismatch("must be an object", value);
    const result: Partial<T> = {};
    for (const name of names) {
      try {
        result[name] = fields[name](value[name]);
      } catch (error) {
        throw inside(`.${name}`, error);
      }
    }
    for (const name in value) {
      if (!Object.hasOwn(fields, name)) {
        throw new Mismatch("must not be there", value[name], `.${name}`);
      }
    }
    return result as T;
  };
}

/** Shared by all empty lists. */
const EMPTY: readonly never[] = [];

/** A list of such items. */
export function list<T>(item: Check<T>): Check<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) throw new Mismatch("must be a list", value);
    if (value.length === 0) return EMPTY;
    return value.map((each: unknown, i) => {
      try {
        return item(each);
      } catch (error) {
        throw inside(`[${i}]`, error);
      }
    });
  };
}

/** A value that passes a check and a rule besides. */
export function where<T>(check: Check<T>, rule: string, holds: (value: T) => boolean): Check<T> {
  return (value) => {
    const checked = check(value);
    if (!holds(checked)) throw new Mismatch(rule, value);
    return checked;
  };
}

/** A value that passes the check, or none: JSON leaves out fields that are `undefined`. */
export function optional<T>(check: Check<T>): Check<T | undefined> {
  return (value) => value === undefined ? undefined : check(value);
}

/** One of these values. */
export function oneOf<T extends string | number>(...choices: readonly T[]): Check<T> {
  const rule = `must be ${choices.join(" or ")}`;
  return (value) => {
    const choice = choices.find((each) => each === value);
    if (choice === undefined) throw new Mismatch(rule, value);
    return choice;
  };
}

/** A whole number inside a range, both ends included. */
export function integer(min: number, max: number): Check<number> {
  return (value) => {
    if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) {
      throw new Mismatch(`must be a whole number from ${min} to ${max}`, value);
    }
    return value;
  };
}

/** Any string. */
export function string(value: unknown): string {
  if (typeof value !== "string") throw new Mismatch("must be a string", value);
  return value;
}

/** True or false. */
export function boolean(value: unknown): boolean {
  if (typeof value !== "boolean") throw new Mismatch("must be true or false", value);
  return value;
}

/** Whether a value is an object of JSON, neither null nor a list. */
export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The same mismatch, seen from one step further out. */
function inside(step: string, error: unknown): unknown {
  return error instanceof Mismatch
    ? new Mismatch(error.rule, error.value, `${step}${error.path}`)
    : error;
}
