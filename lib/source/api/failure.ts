/**
 * What can go wrong between us and the API server.
 *
 * @module
 */

/** The kinds of failure. */
export type FailureReason =
  /** The kubeconfig or a file that it names cannot be used. */
  | "credentials"
  /** No connection, or TLS was refused. */
  | "connection"
  /** The stream broke off. */
  | "dropped"
  /** No byte for too long. */
  | "stalled"
  /** Not what the protocol says: no JSON, half a line, an unknown shape. */
  | "garbage"
  /** 401. */
  | "unauthorized"
  /** 403. */
  | "forbidden"
  /** 404. */
  | "not-found"
  /** 410: the resource version or continue token is too old. */
  | "gone"
  /** A resource version is lower than the one before it: etcd was restored. */
  | "reverted"
  /** 429. */
  | "throttled"
  /** Any other status. */
  | "status";

/** A request or a stream failed. */
export class WatchError extends Error {
  override name = "WatchError";
  /** @param reason what it counts as */
  constructor(readonly reason: FailureReason, message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** The API server answered with an error, by status or by an ERROR event. */
export class StatusError extends WatchError {
  override name = "StatusError";
  /** HTTP status, for example 410. */
  readonly status: number;
  /** Milliseconds that the server asks us to wait; `undefined` where it does not say. */
  readonly retryAfter: number | undefined;

  /** @param message one printable line, with what was asked for */
  constructor(
    message: string,
    options: { readonly status: number; readonly retryAfter?: number | undefined },
  ) {
    super(reasonOfStatus(options.status), message);
    this.status = options.status;
    this.retryAfter = options.retryAfter;
  }
}

const REASONS: Readonly<Record<number, FailureReason>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not-found",
  410: "gone",
  429: "throttled",
};

function reasonOfStatus(status: number): FailureReason {
  return REASONS[status] ?? "status";
}
