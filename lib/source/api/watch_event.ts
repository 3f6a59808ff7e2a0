/**
 * Parses the lines and frames of a watch stream and the pages of a list. Their objects stay
 * undecoded (kubernetes.io/docs/reference/using-api/api-concepts).
 *
 * @module
 */
import { StatusError, WatchError } from "./failure.ts";
import { readMessage } from "./protobuf/protobuf.ts";
import { readApiObject, WATCH_EVENT } from "./protobuf/protobuf_messages.ts";
import { errorText, oneLine } from "../../model/values/text.ts";
import { fieldAt, isRecord, type Json } from "../../model/values/record.ts";

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

/** One page of a list. */
export interface ListPage {
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  /** The token of the next page; `""` on the last one. */
  readonly next: string;
}

const INITIAL_EVENTS_END = "k8s.io/initial-events-end";

/**
 * Parses one line or frame of a watch stream.
 *
 * @param piece a line of JSON, or a frame of protobuf
 * @returns the event, or `undefined` for an unknown type
 * @throws {StatusError} at an ERROR event, with its code
 * @throws {WatchError} if the piece is no watch event
 */
export function parseWatchEvent(piece: string | Uint8Array): WatchEvent | undefined {
  const event = typeof piece === "string" ? parseJson(piece) : parseFrame(piece);
  const type = fieldAt(event, "type");
  const object = fieldAt(event, "object");
  if (typeof type !== "string" || !isRecord(object)) throw garbage("no watch event", piece);
  if (type === "ERROR") throw statusError(object);
  const resourceVersion = fieldAt(object, "metadata", "resourceVersion");
  if (typeof resourceVersion !== "string" || resourceVersion === "") {
    throw garbage("no resourceVersion in the object", piece);
  }
  switch (type) {
    case "ADDED":
    case "MODIFIED":
      return { type: "changed", object, resourceVersion };
    case "DELETED":
      return { type: "deleted", object, resourceVersion };
    case "BOOKMARK": {
      const initialEventsEnd =
        fieldAt(object, "metadata", "annotations", INITIAL_EVENTS_END) === "true";
      return { type: "bookmark", resourceVersion, initialEventsEnd };
    }
    default:
      return undefined;
  }
}

/**
 * Reads one page of a list.
 *
 * @param body the answer, as parsed JSON
 * @throws {WatchError} if it is no list
 */
export function readListPage(body: unknown): ListPage {
  const items = fieldAt(body, "items") ?? [];
  const kind = fieldAt(body, "kind");
  const resourceVersion = fieldAt(body, "metadata", "resourceVersion");
  const next = fieldAt(body, "metadata", "continue") ?? "";
  if (
    typeof kind !== "string" || !kind.endsWith("List") || !Array.isArray(items) ||
    typeof resourceVersion !== "string" || typeof next !== "string"
  ) {
    throw new WatchError("garbage", "the answer is no list of objects");
  }
  return { items, resourceVersion, next };
}

function statusError(status: Json): StatusError {
  const code = typeof status["code"] === "number" ? status["code"] : 500;
  const seconds = fieldAt(status, "details", "retryAfterSeconds");
  return new StatusError(
    `the watch was ended by the server: ${code} ${oneLine(String(status["message"] ?? ""))}`,
    {
      status: code,
      retryAfter: typeof seconds === "number" && seconds > 0 ? seconds * 1000 : undefined,
    },
  );
}

/**
 * The most values in a line, as counted by commas and brackets: about one a byte of the largest
 * etcd object. More could take hundreds of MB of memory.
 */
const MAX_VALUES = 2_000_000;

/** Returns true if a line has more commas and opening brackets than any stored object. */
function hasTooManyValues(line: string): boolean {
  if (line.length <= MAX_VALUES) return false;
  let values = 0;
  for (let i = 0; i < line.length; i++) {
    const code = line.charCodeAt(i);
    if (code === 0x2c || code === 0x5b || code === 0x7b) values++;
  }
  return values > MAX_VALUES;
}

function parseJson(line: string): unknown {
  if (hasTooManyValues(line)) throw garbage(`more than ${MAX_VALUES} values`, line);
  try {
    return JSON.parse(line);
  } catch {
    throw garbage("no JSON", line);
  }
}

/** @returns an object with the shape of a line */
function parseFrame(frame: Uint8Array): unknown {
  try {
    const { type, object } = readMessage(frame, WATCH_EVENT);
    const raw = fieldAt(object, "raw");
    return { type, object: raw instanceof Uint8Array ? readApiObject(raw) : undefined };
  } catch (cause) {
    throw new WatchError("garbage", `no frame of a watch stream: ${errorText(cause)}`, { cause });
  }
}

function garbage(what: string, piece: string | Uint8Array): WatchError {
  const shown = typeof piece === "string" ? oneLine(piece, 80) : `a frame of ${piece.length} bytes`;
  return new WatchError("garbage", `${what} in the watch stream: ${shown}`);
}
