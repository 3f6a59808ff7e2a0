/**
 * Building blocks of the schema: one field is one reader, from unknown to a checked value.
 *
 * `null` and an absent key are both "not set", as they are in Go.
 *
 * @module
 */
import * as z from "zod/mini";
import { parseDuration } from "./durations.ts";
import { show } from "../model/text.ts";

/** What a value must be, and was not; reads on after the name of the field: `must be …`. */
export class Fault {
  /**
   * @param rule for example `must be 0 to 31`
   * @param complete whether the rule says it all, without the value
   */
  constructor(readonly rule: string, readonly complete = false) {}

  /** `type`: kube-proxy could not decode it; `value`: it decodes, and its validation may refuse it. */
  get kind(): "type" | "value" {
    return "type";
  }
}

/** A value of the right type that is not allowed. */
export class ValueFault extends Fault {
  override get kind(): "value" {
    return "value";
  }
}

/** Turns an untrusted value into a checked one. */
export type Reader<T> = (value: unknown) => T | Fault;

/** A field of a section. */
export type Field<T> = z.ZodMiniOptional<z.ZodMiniType<T | undefined>>;

/** A field that is optional and may be `null`. */
export function field<T>(read: Reader<T>): Field<T> {
  return z.optional(z.transform((value: unknown, context): T | undefined => {
    if (value === null || value === undefined) return undefined;
    const result = read(value);
    if (!(result instanceof Fault)) return result;
    const message = result.complete ? result.rule : `${result.rule}, is ${show(value)}`;
    const params = { kind: result.kind };
    context.issues.push({ code: "custom", message, input: value, params });
    return z.NEVER;
  }));
}

/**
 * A mapping with known keys; unknown ones are problems of the kind `unknown`.
 *
 * The message of an `unrecognized_keys` issue is the list of known keys (see `issues.ts`).
 */
export function mapping<S extends z.core.$ZodShape>(shape: S): z.ZodMiniObject<S, z.core.$strict> {
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === "unrecognized_keys"
        ? Object.keys(shape).join(" ")
        : `must be a mapping of fields, is ${show(issue.input)}`,
  });
}

/** A mapping inside another; it may be absent, and `null` is an empty one. */
export function section<S extends z.core.$ZodShape>(
  shape: S,
): z.ZodMiniOptional<z.ZodMiniType<z.output<z.ZodMiniObject<S, z.core.$strict>>>> {
  return z.optional(after((value) => value ?? {}, mapping(shape)));
}

/** A schema for what a function makes of the value. */
function after<S extends z.ZodMiniType>(
  change: (value: unknown) => unknown,
  schema: S,
): z.ZodMiniType<z.output<S>> {
  return z.pipe(z.transform(change), schema);
}

/** A list of one kind of item; `null` is "not set". */
export function list<T>(read: Reader<T>): Field<readonly T[]> {
  const items = z.array(field(read), {
    error: (issue) => `must be a list, is ${show(issue.input)}`,
  });
  const present = z.transform((values: (T | undefined)[] | undefined) =>
    values?.filter((item) => item !== undefined)
  );
  return z.optional(z.pipe(after((value) => value ?? undefined, z.optional(items)), present));
}

/** Names with `true` or `false` each. */
export function switches(): Field<Readonly<Record<string, boolean>>> {
  const map = z.record(z.string(), field(boolean), {
    error: (issue) => `must be a mapping of names to true or false, is ${show(issue.input)}`,
  });
  const present = z.transform((values: Readonly<Record<string, boolean | undefined>>) => {
    const set = Object.entries(values).filter((entry): entry is [string, boolean] =>
      entry[1] !== undefined
    );
    return Object.fromEntries(set);
  });
  return z.optional(z.pipe(after((value) => value ?? {}, map), present));
}

/** `true` or `false`. */
export function boolean(value: unknown): boolean | Fault {
  return typeof value === "boolean" ? value : new Fault("must be true or false");
}

/** Any text. */
export function text(value: unknown): string | Fault {
  return typeof value === "string" ? value : new Fault("must be text");
}

/** A whole number within bounds, both included. */
export function integer(least: number, most: number): Reader<number> {
  const rule = `must be ${least} to ${most}`;
  const text = most === INT32_MAX && least === 0 ? "must be a whole number, 0 or more" : rule;
  return (value) => {
    if (typeof value !== "number" || !Number.isInteger(value)) return new Fault(text);
    return value >= least && value <= most ? value : new ValueFault(text);
  };
}

/** The largest value of Go's `int32`. */
export const INT32_MAX = 2 ** 31 - 1;

/** A number, 0 or more. */
export function number(value: unknown): number | Fault {
  return typeof value === "number" && value >= 0 && Number.isFinite(value)
    ? value
    : new Fault("must be a number, 0 or more");
}

/** A Go duration that is not negative, in milliseconds; empty text is 0. */
export function duration(value: unknown): number | Fault {
  const milliseconds = typeof value !== "string"
    ? undefined
    : value === ""
    ? 0
    : parseDuration(value);
  if (milliseconds === undefined) {
    return new Fault("must be a duration such as 30s, 500ms or 1h30m");
  }
  return milliseconds < 0 ? new ValueFault("must not be negative") : milliseconds;
}

/** A duration, or a number of nanoseconds (component-base's `TimeOrMetaDuration`), in milliseconds. */
export function durationOrNanoseconds(value: unknown): number | Fault {
  return typeof value === "number" && value >= 0 ? value / 1e6 : duration(value);
}

/** A size that may be text with a unit (API machinery's `Quantity`), as text. */
export function quantity(value: unknown): string | Fault {
  if (typeof value === "number" && value >= 0) return String(value);
  return typeof value === "string" && /^(?:\d+(?:\.\d+)?(?:[kMGTPE]i?|[mun])?)?$/.test(value)
    ? value
    : new Fault("must be a size such as 0 or 64Ki");
}
