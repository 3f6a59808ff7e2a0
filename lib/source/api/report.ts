/** The reports of watches to metrics and `signpost status`. */
import type { Kind } from "../../model/cluster/objects.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import type { WatchError } from "./failure.ts";

/** `absent`: the server lacks the resource or the right to it; a retry follows later. */
type WatchState = "connecting" | "listing" | "watching" | "backoff" | "absent" | "stopped";

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
  readonly verb: string;
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

export interface ResponseRead extends Pick<RequestResult, "verb" | "host"> {
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

interface ReportOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer?: WatchObserver;
}

export class WatchReport {
  #status: WatchStatus;
  /** The last logged failure, so that a lasting failure is one line. */
  #warned = "";

  constructor(kind: Kind, private readonly options: ReportOptions) {
    const nothing = { resourceVersion: "", lastEvent: 0, lists: 0, lastError: "" };
    this.#status = { kind, state: "connecting", ...nothing };
  }

  get status(): WatchStatus {
    return this.#status;
  }

  state(state: WatchState): void {
    if (state !== this.#status.state) this.#update({ state });
  }

  listed(resourceVersion: string, objects: number): void {
    const { kind, lists } = this.#status;
    this.#update({ resourceVersion, lists: lists + 1 });
    this.options.logger.debug(2, `listed ${kind} objects`, { objects, resourceVersion });
  }

  alive(resourceVersion: string): void {
    const { kind } = this.#status;
    if (this.#warned !== "") this.options.logger.info(`the watch of ${kind} objects is back`);
    this.#warned = "";
    this.#update({
      state: "watching",
      resourceVersion,
      lastEvent: this.options.clock.now(),
      lastError: "",
    });
  }

  /** Notes a failure after which the watch continues. @param next the delay in milliseconds, and if to warn */
  failed(
    { reason, message: error }: WatchError,
    { delay, loud }: { readonly delay: number; readonly loud: boolean },
  ): void {
    const { kind } = this.#status;
    this.#update({ state: "backoff", lastError: error });
    const fields = { kind, reason, error, retryInMs: Math.round(delay) };
    if (loud && this.#warned !== reason) {
      this.#warned = reason;
      this.options.logger.warn(`the watch of ${kind} objects failed, the rules stay`, fields);
    } else {
      this.options.logger.debug(2, `the watch of ${kind} objects failed`, fields);
    }
  }

  #update(change: Partial<WatchStatus>): void {
    this.#status = { ...this.#status, ...change };
    this.options.observer?.watchChanged?.(this.#status);
  }
}
