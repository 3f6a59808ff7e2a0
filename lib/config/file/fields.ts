/**
 * Reads plain values: from unknown to a checked value.
 *
 * @module
 */
import { parseDuration } from "./durations.ts";

/** A failed check. The rule follows the name of the field: `must be …`. */
export class Fault {
  /**
   * @param rule for example `must be 0 to 31`
   * @param complete true if the message needs no value
   */
  constructor(readonly rule: string, readonly complete = false) {}

  /** Returns `type` if kube-proxy could not decode the value, or `value` if its validation may refuse it. */
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

/** Reads `true` or `false`. */
export function boolean(value: unknown): boolean | Fault {
  return typeof value === "boolean" ? value : new Fault("must be true or false");
}

/** Reads any text. */
export function text(value: unknown): string | Fault {
  return typeof value === "string" ? value : new Fault("must be text");
}

/** Returns a reader of integers within bounds, both included. */
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

/** Reads a number, 0 or more. */
export function number(value: unknown): number | Fault {
  return typeof value === "number" && value >= 0 && Number.isFinite(value)
    ? value
    : new Fault("must be a number, 0 or more");
}

/** Reads a Go duration, not negative, in milliseconds. Empty text is 0. */
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

/** Reads a duration or a number of nanoseconds (component-base's `TimeOrMetaDuration`), in milliseconds. */
export function durationOrNanoseconds(value: unknown): number | Fault {
  return typeof value === "number" && value >= 0 ? value / 1e6 : duration(value);
}

/** Reads a size with an optional unit (API machinery's `Quantity`), as text. */
export function quantity(value: unknown): string | Fault {
  if (typeof value === "number" && value >= 0) return String(value);
  return typeof value === "string" && /^(?:\d+(?:\.\d+)?(?:[kMGTPE]i?|[mun])?)?$/.test(value)
    ? value
    : new Fault("must be a size such as 0 or 64Ki");
}
