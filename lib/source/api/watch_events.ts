/**
 * Reads the API server's answers: bytes to lines of JSON or frames of protobuf, these to objects and watch events
 * (k8s.io/apimachinery: pkg/util/framer, pkg/apis/meta/v1, pkg/runtime).
 */
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { PROTOBUF } from "../../model/configuration.ts";
import { fieldAt, isRecord, type JsonObject } from "../../model/values/record.ts";
import { errorText, oneLine, show } from "../../model/values/text.ts";
import { type Field, type Message, one, TABLES } from "../objects/tables.ts";
import { StatusError, WatchError } from "./failure.ts";

/** The longest line or frame in bytes. The largest object in etcd has 1.5 MiB. */
const MAX_PIECE = 16 * 1024 * 1024;

/** Collects the parts of an incomplete piece. */
export class Remainder {
  /** Doubles when full. Bytes beyond `#length` are free. */
  #buffer = new Uint8Array();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Adds a copy of a part, because its chunk will be overwritten. */
  keep(part: Uint8Array): void {
    const length = this.#length + part.length;
    if (length > this.#buffer.length) {
      const size = Math.max(length, 2 * this.#buffer.length);
      this.#buffer = new Uint8Array(this.#buffer.buffer.transfer(size));
    }
    this.#buffer.set(part, this.#length);
    this.#length = length;
  }

  /** Returns the complete piece with its last part, and starts a new one. */
  join(last: Uint8Array): Uint8Array {
    if (this.#length === 0) return last;
    this.keep(last);
    const piece = this.#buffer.subarray(0, this.#length);
    this.#buffer = new Uint8Array();
    this.#length = 0;
    return piece;
  }
}

const NEWLINE = 0x0a;

/** Returns the lines or frames of a stream, as its content type says. */
export function piecesOf(
  { contentType, body }: { readonly contentType: string; readonly body: AsyncIterable<Uint8Array> },
): AsyncIterable<readonly (string | Uint8Array)[]> {
  return contentType.startsWith(PROTOBUF) ? splitFrames(body) : splitLines(body);
}

/** Yields the lines that each chunk completes. @throws {WatchError} if a line is too long, incomplete or not UTF-8 */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
  { maxLine = MAX_PIECE }: { readonly maxLine?: number } = {},
): AsyncGenerator<readonly string[]> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const remainder = new Remainder();
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(NEWLINE) + 1;
    if (end > 0) {
      const lines = linesIn(remainder.join(chunk.subarray(0, end)), decoder);
      if (lines.length > 0) yield lines;
    }
    // As a string of many small parts, V8 would keep a tree of 35 times its size.
    remainder.keep(chunk.subarray(end));
    if (remainder.length > maxLine) {
      throw new WatchError("garbage", `a line is longer than ${maxLine} bytes`);
    }
  }
  if (remainder.length > 0) {
    const message = `the stream ended within a line, after ${remainder.length} bytes of it`;
    throw new WatchError("garbage", message);
  }
}

function linesIn(bytes: Uint8Array, decoder: TextDecoder): readonly string[] {
  try {
    return decoder.decode(bytes).split("\n").filter((line) => line !== "" && line !== "\r");
  } catch (cause) {
    throw new WatchError("garbage", "a line is not valid UTF-8", { cause });
  }
}

const HEADER = 4;

/** Yields the frames that each chunk completes, valid until the next call. @throws {WatchError} if one is too long */
export async function* splitFrames(
  chunks: AsyncIterable<Uint8Array>,
  { maxFrame = MAX_PIECE }: { readonly maxFrame?: number } = {},
): AsyncGenerator<readonly Uint8Array[]> {
  const remainder = new Remainder();
  /** The length of the next frame; `undefined` while its header is incomplete. */
  let length: number | undefined;
  for await (const chunk of chunks) {
    const frames: Uint8Array[] = [];
    let start = 0;
    for (;;) {
      const end = start + (length ?? HEADER) - remainder.length;
      if (end > chunk.length) break;
      const piece = remainder.join(chunk.subarray(start, end));
      start = end;
      if (length === undefined) {
        length = new DataView(piece.buffer, piece.byteOffset, HEADER).getUint32(0);
        if (length > maxFrame) {
          throw new WatchError("garbage", `a frame is longer than ${maxFrame} bytes`);
        }
      } else {
        frames.push(piece);
        length = undefined;
      }
    }
    remainder.keep(chunk.subarray(start));
    if (frames.length > 0) yield frames;
  }
  if (length !== undefined || remainder.length > 0) {
    const message = `the stream ended within a frame, after ${remainder.length} bytes of it`;
    throw new WatchError("garbage", message);
  }
}

interface ListPage {
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  readonly next: string;
}

/** Reads one page of a list. `next` is `""` on the last page. @throws {WatchError} if the body is not a list */
export function readListPage(body: unknown): ListPage {
  const items = fieldAt(body, "items") ?? [];
  const kind = fieldAt(body, "kind");
  const resourceVersion = fieldAt(body, "metadata", "resourceVersion");
  const next = fieldAt(body, "metadata", "continue") ?? "";
  if (
    typeof kind !== "string" || !kind.endsWith("List") || !Array.isArray(items) ||
    typeof resourceVersion !== "string" || typeof next !== "string"
  ) {
    throw new WatchError("garbage", `expected a list of objects, got ${show(body)}`);
  }
  return { items, resourceVersion, next };
}

/** A decimal number without leading zeros. */
const COMPARABLE = /^[1-9][0-9]*$/;

/** Returns true if a resource version is lower than another. Only numeric ones have an order (KEP-5504). */
export function isLower(version: string, other: string): boolean {
  if (!COMPARABLE.test(version) || !COMPARABLE.test(other)) return false;
  return version.length < other.length || version.length === other.length && version < other;
}

/** One line or frame of a watch stream. */
export type WatchEvent =
  | {
    /** `changed` is ADDED or MODIFIED. */
    readonly type: "changed" | "deleted";
    readonly object: unknown;
    readonly resourceVersion: string;
  }
  | {
    readonly type: "bookmark";
    readonly resourceVersion: string;
    /** True if all initial objects were sent (KEP-3157). */
    readonly initialEventsEnd: boolean;
  };

const INITIAL_EVENTS_END = "k8s.io/initial-events-end";

/** Parses one line or frame; `undefined` for an unknown type. @throws {WatchError} for an ERROR, or an invalid piece */
export function parseWatchEvent(piece: string | Uint8Array): WatchEvent | undefined {
  const event = typeof piece === "string" ? parseJson(piece) : parseFrame(piece);
  const type = fieldAt(event, "type");
  const object = fieldAt(event, "object");
  if (typeof type !== "string" || !isRecord(object)) throw garbage("expected a watch event", piece);
  if (type === "ERROR") throw statusError(object);
  const resourceVersion = fieldAt(object, "metadata", "resourceVersion");
  if (typeof resourceVersion !== "string" || resourceVersion === "") {
    throw garbage("the object lacks a resourceVersion", piece);
  }
  if (type === "BOOKMARK") {
    const initialEventsEnd =
      fieldAt(object, "metadata", "annotations", INITIAL_EVENTS_END) === "true";
    return { type: "bookmark", resourceVersion, initialEventsEnd };
  }
  if (type === "DELETED") return { type: "deleted", object, resourceVersion };
  const isChange = type === "ADDED" || type === "MODIFIED";
  return isChange ? { type: "changed", object, resourceVersion } : undefined;
}

function statusError(status: JsonObject): StatusError {
  const code = typeof status["code"] === "number" ? status["code"] : 500;
  const seconds = fieldAt(status, "details", "retryAfterSeconds");
  const retryAfter = typeof seconds === "number" && seconds > 0 ? seconds * 1000 : 0;
  const message = oneLine(String(status["message"] ?? ""));
  return new StatusError(`the API server ended the watch: ${code} ${message}`, code, retryAfter);
}

/** The most values in a line or page: one for each byte of the largest etcd object. More could take hundreds of MB. */
const MAX_VALUES = 2_000_000;

/** Returns true if a text has more commas and opening brackets than any stored object. */
function hasTooManyValues(line: string): boolean {
  if (line.length <= MAX_VALUES) return false;
  let values = 0;
  for (let i = 0; i < line.length; i++) {
    const code = line.charCodeAt(i);
    if (code === 0x2c || code === 0x5b || code === 0x7b) values++;
  }
  return values > MAX_VALUES;
}

/** Parses a line or a page. @throws {WatchError} if it is not JSON, or has too many values */
export function parseJson(line: string): unknown {
  if (hasTooManyValues(line)) {
    throw new WatchError("too-large", `the answer has more than ${MAX_VALUES} values`);
  }
  try {
    return JSON.parse(line);
  } catch {
    throw garbage("it is not JSON", line);
  }
}

function parseFrame(frame: Uint8Array): unknown {
  try {
    const { type, object } = readMessage(frame, WATCH_EVENT);
    const raw = fieldAt(object, "raw");
    return { type, object: raw instanceof Uint8Array ? readApiObject(raw) : undefined };
  } catch (cause) {
    throw new WatchError("garbage", `a frame is not valid: ${errorText(cause)}`, { cause });
  }
}

function garbage(what: string, piece: string | Uint8Array): WatchError {
  const shown = typeof piece === "string" ? oneLine(piece, 80) : `a frame of ${piece.length} bytes`;
  return new WatchError("garbage", `the answer cannot be used, ${what}: ${shown}`);
}

/** A parsed message: JSON values, `Uint8Array`, and `Date` for a time. */
type MessageObject = Record<string, unknown>;

/** The most values in a message. A value takes at least two bytes, and etcd objects have at most 1.5 MiB. */
const MAX_FIELDS = 800_000;

function readMessage(bytes: Uint8Array, message: Message): MessageObject {
  return readFields(new CountingReader(bytes), bytes.length, message);
}

class CountingReader extends BinaryReader {
  #values = 0;

  count(): void {
    if (++this.#values > MAX_FIELDS) throw new Error(`it has more than ${MAX_FIELDS} values`);
  }
}

function readFields(reader: CountingReader, end: number, message: Message): MessageObject {
  const object: MessageObject = {};
  while (reader.pos < end) {
    const tag = reader.uint32();
    const field = message[tag >>> 3];
    const wireType = tag & 7;
    if (field === undefined || isFull(field, object)) reader.skip(wireType, tag >>> 3);
    else if (wireType === wireTypeOf(field)) readField(reader, field, object);
    else throw new Error(`the field ${field.name} is of wire type ${wireType}`);
  }
  if (reader.pos !== end) throw new Error("a field reaches beyond its message");
  return object;
}

/** Returns true if a list has more entries than allowed. Its decoder refuses it. */
function isFull({ name, most = Infinity }: Field, object: MessageObject): boolean {
  return most !== Infinity && ((object[name] as unknown[] | undefined)?.length ?? 0) > most;
}

function wireTypeOf({ value }: Field): WireType {
  const isVarint = value === "integer" || value === "long" || value === "boolean";
  return isVarint ? WireType.Varint : WireType.LengthDelimited;
}

function readField(reader: CountingReader, field: Field, object: MessageObject): void {
  const { name, value, repeated } = field;
  reader.count();
  if (value === "map") {
    const { key = "", value: text = "" } = readNested(reader, ENTRY);
    ((object[name] ??= {}) as MessageObject)[key as string] = text;
  } else if (repeated) ((object[name] ??= []) as unknown[]).push(readValue(reader, value));
  else object[name] = readValue(reader, value);
}

const ENTRY: Message = { 1: one("key", "string"), 2: one("value", "string") };
const TIME: Message = { 1: one("seconds", "long") };

function readValue(reader: CountingReader, value: Exclude<Field["value"], "map">): unknown {
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
    case "time": {
      // Out of range, it is an invalid date.
      const { seconds = 0 } = readNested(reader, TIME);
      return new Date(seconds as number * 1000);
    }
    default:
      return readNested(reader, value);
  }
}

/** Reads a length and the message or map entry after it. */
function readNested(reader: CountingReader, message: Message): MessageObject {
  const length = reader.uint32();
  return readFields(reader, reader.pos + length, message);
}

/** meta/v1 WatchEvent: one frame of a watch stream. */
const WATCH_EVENT: Message = {
  1: one("type", "string"),
  2: one("object", { 1: one("raw", "bytes") }),
};

/** runtime Unknown: any object. */
const UNKNOWN: Message = {
  1: one("typeMeta", { 2: one("kind", "string") }),
  2: one("raw", "bytes"),
};

/** meta/v1 Status. */
const STATUS: Message = {
  3: one("message", "string"),
  5: one("details", { 5: one("retryAfterSeconds", "integer") }),
  6: one("code", "integer"),
};

/** The messages of a server's answers, by kind. */
const OBJECTS: ReadonlyMap<unknown, Message> = new Map(
  Object.entries({ ...TABLES, Status: STATUS }),
);

/** The prefix of any object: `k8s\0`. */
const PREFIX: readonly number[] = [0x6b, 0x38, 0x73, 0x00];

export function isApiObject(bytes: Uint8Array): boolean {
  return PREFIX.every((byte, i) => bytes[i] === byte);
}

/** Reads an object of a known kind, or a Status. @throws {Error} if it is neither */
export function readApiObject(bytes: Uint8Array): MessageObject {
  if (!isApiObject(bytes)) throw new Error("the object lacks its prefix");
  const { typeMeta, raw } = readMessage(bytes.subarray(PREFIX.length), UNKNOWN);
  const kind = (typeMeta as MessageObject | undefined)?.["kind"];
  const message = OBJECTS.get(kind);
  if (message === undefined) throw new Error(`unknown kind ${JSON.stringify(kind ?? null)}`);
  return readMessage(raw instanceof Uint8Array ? raw : new Uint8Array(), message);
}
