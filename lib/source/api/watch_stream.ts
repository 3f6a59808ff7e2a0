/**
 * Follows one watch stream from its request to its end, with or without the initial state.
 *
 * @module
 */
import { PROTOBUF } from "../../model/configuration.ts";
import type { Decoder, EventSink, Kind } from "../../model/cluster/objects.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { type ApiClient, type ApiStream, IdleLimit } from "./api_client.ts";
import { StatusError, WatchError } from "./failure.ts";
import { SplitError, splitFrames, splitLines } from "./pieces.ts";
import type { Resource } from "./resources.ts";
import { changeEvent, Snapshot, TooManyObjectsError } from "./list.ts";
import { readApiObject, readMessage, WATCH_EVENT } from "./protobuf.ts";
import { errorText, oneLine } from "../../model/values/text.ts";
import { fieldAt, isRecord, type Json } from "../../model/values/record.ts";

/** The options and callbacks of a stream. */
export interface StreamOptions<K extends Kind> {
  readonly client: ApiClient;
  readonly resource: Resource;
  readonly decode: Decoder;
  readonly sink: EventSink;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** True if the server may send protobuf. */
  readonly protobuf: boolean;
  /** The version to continue from; `undefined` starts with a streaming list of all objects. */
  readonly resourceVersion: string | undefined;
  /** The time after which the server ends the stream. */
  readonly timeoutSeconds: number;
  /** Milliseconds without a byte before the stream is given up. */
  readonly stall: number;
  /** Milliseconds without a new object before a streaming list is given up. */
  readonly initialQuiet: number;
  /** Keys of the delivered objects, updated here. */
  readonly known: () => Set<string>;
  /** The most objects to keep. */
  readonly maxObjects: number;
  /** Called when the server has accepted the watch. */
  readonly onOpen: () => void;
  /** Called when the initial state was delivered. */
  readonly onListed: (snapshot: Snapshot<K>, resourceVersion: string) => void;
  /** Called once a chunk if it has events or a bookmark after the initial state. */
  readonly onProgress: (resourceVersion: string) => void;
}

/** Thrown if the server accepts a streaming list but does not mark its end. */
class UnmarkedListError extends WatchError {
  override name = "UnmarkedListError";
}

/** Statuses of servers that refuse unknown parameters. */
const REFUSALS: readonly number[] = [400, 405, 406, 415, 422, 501];

/** Lines or frames that are taken without a break. */
const BATCH = 16;

/**
 * Follows a stream until the server ends it or the signal aborts.
 *
 * @throws {WatchError} if it breaks off, stalls, or has an ERROR event or garbage
 */
export async function followStream<K extends Kind>(
  kind: K,
  options: StreamOptions<K>,
): Promise<void> {
  const { client, resource, signal, clock } = options;
  const stream = await client.open(resource.path, {
    query: watchQuery(options),
    ...(options.protobuf && { accept: `${PROTOBUF}, application/json` }),
    signal,
    idleLimit: options.stall,
    headerLimit: Math.min(options.stall, 90_000),
  });
  options.onOpen();
  const isInitial = options.resourceVersion === undefined;
  const quiet = isInitial ? limitQuiet(stream, clock, options.initialQuiet) : undefined;
  const follower = new Follower(kind, { ...options, quiet });
  const turns = new Turns(clock);
  try {
    for await (const pieces of piecesOf(stream)) {
      if (signal.aborted) return;
      for (let i = 0; i < pieces.length; i += BATCH) {
        follower.take(pieces.slice(i, i + BATCH));
        if (!follower.isListing) continue;
        await turns.giveWay();
        if (signal.aborted) return;
      }
    }
    if (follower.isListing) throw new WatchError("dropped", "the initial list ended unfinished");
  } catch (error) {
    if (error instanceof SplitError) {
      throw new WatchError("garbage", error.message, { cause: error });
    }
    throw error;
  } finally {
    quiet?.stop();
    stream.close();
  }
}

function piecesOf(stream: ApiStream): AsyncIterable<readonly (string | Uint8Array)[]> {
  const isProtobuf = stream.contentType.startsWith(PROTOBUF);
  return isProtobuf ? splitFrames(stream.body) : splitLines(stream.body);
}

/** Returns true if a failed protobuf stream may work in JSON. */
export function mayWorkInJson(error: unknown): boolean {
  if (error instanceof StatusError) return error.status === 406 || error.status === 415;
  return error instanceof WatchError && error.reason === "garbage" &&
    !(error instanceof UnmarkedListError || error instanceof TooManyObjectsError);
}

/** Returns true if the server names the field selector as the reason of a refusal. */
export function refusesFieldSelector(error: unknown): boolean {
  return error instanceof StatusError && error.status === 400 &&
    /field (?:selector|label)/i.test(error.message);
}

/**
 * Returns the kind of failure after which a paged list follows at once.
 *
 * `for good`: the server does not know streaming lists. `for now`: the failure may be temporary.
 * `undefined`: a paged list would fail too.
 */
export function fallbackFrom(error: unknown): "for good" | "for now" | undefined {
  if (error instanceof UnmarkedListError) return "for good";
  if (error instanceof TooManyObjectsError) return undefined;
  if (error instanceof StatusError) {
    if (REFUSALS.includes(error.status)) return "for good";
    return error.status === 403 ? "for now" : undefined;
  }
  const isBroken = error instanceof WatchError &&
    (error.reason === "garbage" || error.reason === "dropped");
  return isBroken ? "for now" : undefined;
}

function watchQuery<K extends Kind>(options: StreamOptions<K>): Record<string, string> {
  const { resource, resourceVersion, timeoutSeconds } = options;
  return {
    ...resource.selectors,
    watch: "true",
    allowWatchBookmarks: "true",
    timeoutSeconds: String(timeoutSeconds),
    ...(resourceVersion === undefined
      ? { sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan" }
      : { resourceVersion }),
  };
}

function limitQuiet(stream: ApiStream, clock: Clock, milliseconds: number): IdleLimit {
  const message = "the server does not mark the end of the initial list";
  return new IdleLimit(milliseconds, {
    clock,
    onIdle: () => stream.fail(new UnmarkedListError("garbage", message)),
  });
}

/** A decimal number without leading zeros. */
const COMPARABLE = /^[1-9][0-9]*$/;

/**
 * Returns true if a resource version is lower than another of the same resource. Non-numeric
 * versions have no order (KEP-5504).
 */
function isLower(version: string, other: string): boolean {
  if (!COMPARABLE.test(version) || !COMPARABLE.test(other)) return false;
  return version.length < other.length || version.length === other.length && version < other;
}

/** Takes the lines or frames of one stream. */
class Follower<K extends Kind> {
  #snapshot: Snapshot<K> | undefined;
  /** The version of the last delivered event. */
  #resourceVersion: string;
  #hasProgress = false;

  constructor(
    private readonly kind: K,
    private readonly options: StreamOptions<K> & { readonly quiet: IdleLimit | undefined },
  ) {
    this.#resourceVersion = options.resourceVersion ?? "";
    if (options.resourceVersion === undefined) {
      this.#snapshot = new Snapshot(kind, options.maxObjects);
    }
  }

  /** True until the end of the initial state. */
  get isListing(): boolean {
    return this.#snapshot !== undefined;
  }

  take(pieces: readonly (string | Uint8Array)[]): void {
    try {
      for (const piece of pieces) {
        const event = parseWatchEvent(piece);
        if (event === undefined) continue;
        if (this.#snapshot) this.#gather(this.#snapshot, event);
        else this.#pass(event);
      }
    } finally {
      // Events before a bad piece are delivered, so the next watch continues after them.
      if (this.#hasProgress) this.options.onProgress(this.#resourceVersion);
      this.#hasProgress = false;
    }
  }

  #gather(snapshot: Snapshot<K>, event: WatchEvent): void {
    const { decode, quiet, sink, onListed } = this.options;
    if (event.type === "bookmark") {
      if (!event.initialEventsEnd) return;
      this.#snapshot = undefined;
      quiet?.stop();
      sink(snapshot.toEvent());
      onListed(snapshot, event.resourceVersion);
      this.#reached(event.resourceVersion);
      return;
    }
    const decoded = decode(this.kind, event.object);
    if (event.type === "deleted") snapshot.remove(decoded.key);
    else if (snapshot.put(decoded)) quiet?.touch();
  }

  #pass(event: WatchEvent): void {
    const { decode, sink } = this.options;
    if (isLower(event.resourceVersion, this.#resourceVersion)) {
      const step = `from ${this.#resourceVersion} to ${event.resourceVersion}`;
      throw new WatchError("reverted", `the resource version went back ${step}`);
    }
    if (event.type !== "bookmark") {
      const decoded = decode(this.kind, event.object);
      this.#count(decoded.key, event.type === "changed" && decoded.type !== "ignored");
      sink(
        event.type === "deleted"
          ? { type: "delete", kind: this.kind, key: decoded.key }
          : changeEvent(this.kind, decoded),
      );
    }
    this.#reached(event.resourceVersion);
  }

  #reached(resourceVersion: string): void {
    this.#resourceVersion = resourceVersion;
    this.#hasProgress = true;
  }

  #count(key: string, isThere: boolean): void {
    const { maxObjects } = this.options;
    const known = this.options.known();
    if (!isThere) known.delete(key);
    else if (known.size < maxObjects || known.has(key)) known.add(key);
    else throw new TooManyObjectsError(this.kind, maxObjects);
  }
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
