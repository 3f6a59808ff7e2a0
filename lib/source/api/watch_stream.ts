/**
 * One watch stream from its request to its end, with or without the initial state in front.
 *
 * @module
 */
import { PROTOBUF } from "../../model/configuration.ts";
import type { Decoder, EventSink } from "../../model/cluster/events.ts";
import type { Kind } from "../../model/cluster/objects.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { ApiClient, ApiStream } from "./api_client.ts";
import { StatusError, WatchError } from "./failure.ts";
import { IdleLimit } from "./http/idle_limit.ts";
import { splitFrames } from "./http/frames.ts";
import { splitLines } from "./http/lines.ts";
import { SplitError } from "./http/pieces.ts";
import type { Resource } from "./resources.ts";
import { changeEvent, Snapshot, TooManyObjectsError } from "./snapshot.ts";
import { parseWatchEvent, type WatchEvent } from "./watch_event.ts";

/** What to follow, and who hears of it. */
export interface StreamOptions<K extends Kind> {
  readonly client: ApiClient;
  readonly resource: Resource;
  readonly decode: Decoder;
  readonly sink: EventSink;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Whether the server may send protobuf. */
  readonly protobuf: boolean;
  /** Where to go on from; `undefined`: begin with all objects, a streaming list. */
  readonly resourceVersion: string | undefined;
  /** When the server shall end the stream. */
  readonly timeoutSeconds: number;
  /** Milliseconds without a byte after which the stream is given up. */
  readonly stall: number;
  /** Milliseconds without a new object after which a streaming list is given up. */
  readonly initialQuiet: number;
  /** Keys of the objects that were delivered; kept up to date here. */
  readonly known: () => Set<string>;
  /** Objects that are kept. */
  readonly maxObjects: number;
  /** The server has accepted the watch. */
  readonly onOpen: () => void;
  /** The initial state was delivered. */
  readonly onListed: (snapshot: Snapshot<K>, resourceVersion: string) => void;
  /** Events or a bookmark came after the initial state; called once a chunk. */
  readonly onProgress: (resourceVersion: string) => void;
}

/** The server accepted a streaming list, but does not know how to end it. */
class UnmarkedListError extends WatchError {
  override name = "UnmarkedListError";
}

/** Statuses by which servers refuse parameters that they do not know. */
const REFUSALS: readonly number[] = [400, 405, 406, 415, 422, 501];

/** Lines or frames that are taken at one go. */
const BATCH = 16;

/**
 * Follows a stream until the server ends it or the signal aborts.
 *
 * @throws {WatchError} where it breaks off, stalls, brings an ERROR event or garbage
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

/** Whether a stream that was asked for in protobuf may fare better in JSON. */
export function speaksAgainstProtobuf(error: unknown): boolean {
  if (error instanceof StatusError) return error.status === 406 || error.status === 415;
  return error instanceof WatchError && error.reason === "garbage" &&
    !(error instanceof UnmarkedListError || error instanceof TooManyObjectsError);
}

/** Whether a server that refuses a request names the field selector as the reason. */
export function speaksAgainstFieldSelector(error: unknown): boolean {
  return error instanceof StatusError && error.status === 400 &&
    /field (?:selector|label)/i.test(error.message);
}

/**
 * Whether a streaming list failed in a way that asks for a paged list at once.
 *
 * `for good`: the server does not know streaming lists. `for now`: it may have been chance.
 * `undefined`: a paged list would fail alike.
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
 * Returns whether a resource version is lower than another of the same resource; `false` if one of
 * them is no number, for then they have no order (KEP-5504).
 */
function isLower(version: string, other: string): boolean {
  if (!COMPARABLE.test(version) || !COMPARABLE.test(other)) return false;
  return version.length < other.length || version.length === other.length && version < other;
}

/** Takes the lines or frames of one stream. */
class Follower<K extends Kind> {
  #snapshot: Snapshot<K> | undefined;
  /** Of what was delivered last. */
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

  /** Whether the end of the initial state has not come yet. */
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
      // What came before a bad piece is delivered, so the next watch goes on behind it.
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
