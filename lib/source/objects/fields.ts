/**
 * Defines tables of API fields: the JSON name and the protobuf number of each.
 *
 * A decoder that reads a field outside its table does not compile.
 *
 * @module
 */

/** The type of a field that is not a message. `integer` has 32 bits, `long` 64; `time` is meta/v1 Time. */
export type Scalar = "string" | "integer" | "long" | "boolean" | "bytes" | "time" | "map";

/** The fields of a message, by their names in JSON. */
export interface Fields {
  readonly [name: string]: Field;
}

/** One field. */
export interface Field<V extends Scalar | Fields = Scalar | Fields> {
  /** The field's protobuf number. */
  readonly number: number;
  readonly value: V;
  /** True if it is a list of such values. */
  readonly repeated: boolean;
}

/** A field that is a list. */
export interface ListField<V extends Scalar | Fields = Scalar | Fields> extends Field<V> {
  readonly repeated: true;
}

function scalar<V extends Scalar>(value: V): (number: number) => Field<V> {
  return (number) => ({ number, value, repeated: false });
}

/** A text field. */
export const string = scalar("string");
/** A 32-bit number field. */
export const integer = scalar("integer");
/** A 64-bit number field. */
export const long = scalar("long");
/** A boolean field. */
export const boolean = scalar("boolean");
/** A view of the input, in protobuf only. */
export const bytes = scalar("bytes");
/** A time: RFC 3339 in JSON, a `Date` from protobuf. */
export const time = scalar("time");
/** A map of texts to texts. */
export const map = scalar("map");

/** Returns a field that is a list of texts. */
export function strings(number: number): ListField<"string"> {
  return { number, value: "string", repeated: true };
}

/** Returns a field that is a message. */
export function one<F extends Fields>(number: number, value: F): Field<F> {
  return { number, value, repeated: false };
}

/** Returns a field that is a list of messages. */
export function many<F extends Fields>(number: number, value: F): ListField<F> {
  return { number, value, repeated: true };
}

declare const field: unique symbol;

/** The unchecked value of a field. It may be anything. */
export interface Unread<F extends Field> {
  readonly [field]?: F;
}

/** An unchecked object. Only the fields of its table can be read. */
export type Raw<F extends Fields> = { readonly [N in keyof F]?: Unread<F[N]> };
