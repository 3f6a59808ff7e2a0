/**
 * Tables of the fields of API objects: by name for JSON, with the numbers that protobuf has for them.
 *
 * A decoder may ask an object for no field that its table does not have: it does not compile.
 *
 * @module
 */

/** What a field holds besides messages. `integer` has 32 bits, `long` 64; `time` is meta/v1 Time. */
export type Scalar = "string" | "integer" | "long" | "boolean" | "bytes" | "time" | "map";

/** The fields of a message, by their names in JSON. */
export interface Fields {
  readonly [name: string]: Field;
}

/** One field. */
export interface Field<V extends Scalar | Fields = Scalar | Fields> {
  /** Its number in protobuf. */
  readonly number: number;
  readonly value: V;
  /** Whether it is a list of such values. */
  readonly repeated: boolean;
}

/** A field that is a list. */
export interface ListField<V extends Scalar | Fields = Scalar | Fields> extends Field<V> {
  readonly repeated: true;
}

function scalar<V extends Scalar>(value: V): (number: number) => Field<V> {
  return (number) => ({ number, value, repeated: false });
}

/** A text. */
export const string = scalar("string");
/** A number of 32 bits. */
export const integer = scalar("integer");
/** A number of 64 bits. */
export const long = scalar("long");
/** True or false. */
export const boolean = scalar("boolean");
/** A view of what was read; only in protobuf. */
export const bytes = scalar("bytes");
/** RFC 3339 in JSON; what is read of protobuf has a `Date`. */
export const time = scalar("time");
/** From texts to texts. */
export const map = scalar("map");

/** A list of texts. */
export function strings(number: number): ListField<"string"> {
  return { number, value: "string", repeated: true };
}

/** A message. */
export function one<F extends Fields>(number: number, value: F): Field<F> {
  return { number, value, repeated: false };
}

/** A list of messages. */
export function many<F extends Fields>(number: number, value: F): ListField<F> {
  return { number, value, repeated: true };
}

declare const field: unique symbol;

/** A value of a field, of which nothing is known but where it stands. It may be anything. */
export interface Unread<F extends Field> {
  readonly [field]?: F;
}

/** An object of which only the fields of its table may be asked for. */
export type Raw<F extends Fields> = { readonly [N in keyof F]?: Unread<F[N]> };
