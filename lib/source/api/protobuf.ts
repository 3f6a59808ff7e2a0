/**
 * The protobuf messages that signpost reads: objects of its kinds, and the API server's wrappers
 * (k8s.io/apimachinery/pkg/apis/meta/v1, k8s.io/apimachinery/pkg/runtime).
 *
 * @module
 */
import {
  bytes,
  type Fields,
  integer,
  long,
  one,
  type Scalar,
  string,
  TABLES,
} from "../objects/tables.ts";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

/** Fields by their numbers. */
export type Message = Readonly<Record<number, NumberedField>>;

/** One field of a message. */
interface NumberedField {
  /** The field's JSON name. */
  readonly name: string;
  readonly value: Scalar | Message;
  readonly repeated: boolean;
}

/** Returns the message of a table of fields. */
export function messageOf(fields: Fields): Message {
  return Object.fromEntries(
    Object.entries(fields).map(([name, { number, value, repeated }]) => [
      number,
      { name, value: typeof value === "string" ? value : messageOf(value), repeated },
    ]),
  );
}

/** A parsed message: JSON values, `Uint8Array`, and `Date` for a time. */
export type MessageObject = Record<string, unknown>;

/**
 * The most values in a message, nested ones included. A value takes at least two bytes, and etcd
 * objects have at most 1.5 MiB.
 */
const MAX_VALUES = 800_000;

/**
 * Reads a message.
 *
 * @throws {Error} if it ends within a field, a field has the wrong type, or there are too many
 * values
 */
export function readMessage(bytes: Uint8Array, message: Message): MessageObject {
  return readFields(new CountingReader(bytes), bytes.length, message);
}

/** Counts the values that were read. */
class CountingReader extends BinaryReader {
  #values = 0;

  count(): void {
    if (++this.#values > MAX_VALUES) throw new Error(`it has more than ${MAX_VALUES} values`);
  }
}

function readFields(reader: CountingReader, end: number, message: Message): MessageObject {
  const object: MessageObject = {};
  while (reader.pos < end) {
    const tag = reader.uint32();
    const field = message[tag >>> 3];
    const wireType = tag & 7;
    if (field === undefined) reader.skip(wireType, tag >>> 3);
    else if (wireType === wireTypeOf(field)) readField(reader, field, object);
    else throw new Error(`the field ${field.name} is of wire type ${wireType}`);
  }
  if (reader.pos !== end) throw new Error("a field reaches beyond its message");
  return object;
}

function wireTypeOf({ value }: NumberedField): WireType {
  const isVarint = value === "integer" || value === "long" || value === "boolean";
  return isVarint ? WireType.Varint : WireType.LengthDelimited;
}

function readField(reader: CountingReader, field: NumberedField, object: MessageObject): void {
  const { name, value, repeated } = field;
  reader.count();
  if (value === "map") readEntry(reader, (object[name] ??= {}) as MessageObject);
  else if (repeated) ((object[name] ??= []) as unknown[]).push(readValue(reader, value));
  else object[name] = readValue(reader, value);
}

function readValue(reader: CountingReader, value: Exclude<NumberedField["value"], "map">): unknown {
  switch (value) {
    case "string":
      return reader.string();
    case "integer":
      return reader.int32();
    case "long":
      return Number(reader.int64());
    case "boolean":
      return reader.bool();
    case "bytes":
      return reader.bytes();
    case "time":
      return readTime(reader);
    default:
      return readNested(reader, value);
  }
}

/** Reads a length and the message or map entry after it. */
function readNested(reader: CountingReader, message: Message): MessageObject {
  const length = reader.uint32();
  return readFields(reader, reader.pos + length, message);
}

const ENTRY: Message = messageOf({ key: string(1), value: string(2) });

function readEntry(reader: CountingReader, map: MessageObject): void {
  const { key = "", value = "" } = readNested(reader, ENTRY);
  map[key as string] = value;
}

const TIME: Message = messageOf({ seconds: long(1) });

/** Returns an invalid date if the value is out of range. */
function readTime(reader: CountingReader): Date {
  const { seconds = 0 } = readNested(reader, TIME);
  return new Date(seconds as number * 1000);
}

/** meta/v1 WatchEvent: one frame of a watch stream. */
export const WATCH_EVENT: Message = messageOf({
  type: string(1),
  object: one(2, { raw: bytes(1) }),
});

/** runtime Unknown: any object. */
const UNKNOWN: Message = messageOf({
  typeMeta: one(1, { kind: string(2) }),
  raw: bytes(2),
});

/** meta/v1 Status. */
const STATUS = {
  message: string(3),
  details: one(5, { retryAfterSeconds: integer(5) }),
  code: integer(6),
};

/** The messages of a server's answers, by kind. */
const OBJECTS: ReadonlyMap<unknown, Message> = new Map(
  Object.entries({ ...TABLES, Status: STATUS }).map(([kind, fields]) => [kind, messageOf(fields)]),
);

/** The prefix of any object: `k8s\0`. */
const PREFIX: readonly number[] = [0x6b, 0x38, 0x73, 0x00];

/** Returns true if the bytes are an object in protobuf. */
export function isApiObject(bytes: Uint8Array): boolean {
  return PREFIX.every((byte, i) => bytes[i] === byte);
}

/**
 * Reads an object of a known kind, or a Status.
 *
 * @throws {Error} if it is neither
 */
export function readApiObject(bytes: Uint8Array): MessageObject {
  if (!isApiObject(bytes)) throw new Error("an object without its prefix");
  const { typeMeta, raw } = readMessage(bytes.subarray(PREFIX.length), UNKNOWN);
  const kind = (typeMeta as MessageObject | undefined)?.["kind"];
  const message = OBJECTS.get(kind);
  if (message === undefined) throw new Error(`an object of kind ${JSON.stringify(kind ?? null)}`);
  return readMessage(raw instanceof Uint8Array ? raw : new Uint8Array(), message);
}
