/**
 * What the watches tell those who report on them: metrics, `signpost status`.
 *
 * @module
 */
import type { Kind } from "../../model/cluster/objects.ts";

/**
 * Where a watch stands. `absent`: the server does not know the resource, it is asked again later.
 */
export type WatchState =
  | "connecting"
  | "listing"
  | "watching"
  | "backoff"
  | "absent"
  | "stopped";

/** The state of one watch. */
export interface WatchStatus {
  readonly kind: Kind;
  readonly state: WatchState;
  /** `""`: none. */
  readonly resourceVersion: string;
  /** Wall-clock time of the last event or bookmark, milliseconds since the epoch; 0: none yet. */
  readonly lastEvent: number;
  /** Complete lists that were delivered, the first one included. */
  readonly lists: number;
  /** The last failure in one line; `""` where all is well. */
  readonly lastError: string;
}

/** One request to the API server, as client-go's `rest_client_*` metrics count them. */
export interface RequestResult {
  /** HTTP method. */
  readonly verb: string;
  /** `host:port`. */
  readonly host: string;
  /** HTTP status as text, `<error>` where there was no answer. */
  readonly code: string;
  /** Milliseconds until the headers of the answer were in. */
  readonly duration: number;
  /** Bytes of its body. */
  readonly size: number;
  /** The code of the same request before, where that failed. */
  readonly retryOf?: string;
}

/** The body of an answer. */
export interface ResponseRead extends Pick<RequestResult, "verb" | "host"> {
  /** Bytes. */
  readonly size: number;
}

/** Takes reports. Called often; it must be quick and must not throw. */
export interface WatchObserver {
  /** A watch came into another state, or took events. */
  watchChanged?(status: WatchStatus): void;
  requestDone?(result: RequestResult): void;
  /** The body of an answer has ended, or was given up; that of a watch is not told. */
  responseRead?(response: ResponseRead): void;
}
