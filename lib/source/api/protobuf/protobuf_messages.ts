/**
 * The protobuf messages that signpost reads: objects of its kinds, and the API server's wrappers
 * (k8s.io/apimachinery/pkg/apis/meta/v1, k8s.io/apimachinery/pkg/runtime).
 *
 * @module
 */
import { bytes, integer, one, string } from "../../objects/fields.ts";
import { TABLES } from "../../objects/tables.ts";
import { type Message, type MessageObject, messageOf, readMessage } from "./protobuf.ts";

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
