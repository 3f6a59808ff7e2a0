/**
 * The reports of watches to metrics and `signpost status`.
 *
 * @module
 */
import type { Kind } from "../../model/cluster/objects.ts";

/** The state of a watch. `absent`: the server does not know the resource; a retry follows later. */
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
  /** `""` if there is none. */
  readonly resourceVersion: string;
  /** The wall-clock time of the last event or bookmark, milliseconds since the epoch; 0 if there was none. */
  readonly lastEvent: number;
  /** The number of delivered complete lists, the first one included. */
  readonly lists: number;
  /** The last failure in one line; `""` if there is none. */
  readonly lastError: string;
}

/** One request to the API server, as in client-go's `rest_client_*` metrics. */
export interface RequestResult {
  /** HTTP method. */
  readonly verb: string;
  /** `host:port`. */
  readonly host: string;
  /** The HTTP status as text, or `<error>` if there was no answer. */
  readonly code: string;
  /** Milliseconds until the headers of the answer. */
  readonly duration: number;
  /** Bytes of the request's body. */
  readonly size: number;
  /** The code of the previous attempt, if that failed. */
  readonly retryOf?: string;
}

/** The body of an answer. */
export interface ResponseRead extends Pick<RequestResult, "verb" | "host"> {
  /** The size in bytes. */
  readonly size: number;
}

/** Takes reports. Called often: must be quick and must not throw. */
export interface WatchObserver {
  /** Called when a watch changes its state or takes events. */
  watchChanged?(status: WatchStatus): void;
  requestDone?(result: RequestResult): void;
  /** Called when a body has ended or was given up, but not for watches. */
  responseRead?(response: ResponseRead): void;
}
