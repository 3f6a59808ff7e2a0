/** The failures of requests and watches. */

type FailureReason =
  | "credentials" // The kubeconfig or a file that it names cannot be used.
  | "connection" // No connection, or TLS was refused.
  | "dropped" // The stream broke off.
  | "stalled" // No byte arrived in time.
  | "garbage" // A protocol error: no JSON, half a line, an unknown shape.
  | "too-many" // More objects than any cluster has: perhaps it is the wrong server.
  | "unauthorized" // 401.
  | "forbidden" // 403.
  | "not-found" // 404.
  | "gone" // 410: the resource version or continue token is too old.
  | "reverted" // A resource version is lower than the previous one: etcd was restored.
  | "throttled" // 429.
  | "internal" // 500.
  | "status"; // Any other status.

export class WatchError extends Error {
  override name = "WatchError";
  constructor(readonly reason: FailureReason, message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** The API server answered with an error status or an ERROR event. */
export class StatusError extends WatchError {
  override name = "StatusError";

  /** @param retryAfter milliseconds that the server asks to wait; 0 if it does not */
  constructor(message: string, readonly status: number, readonly retryAfter = 0) {
    super(REASONS[status] ?? "status", message);
  }
}

const REASONS: Readonly<Record<number, FailureReason>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not-found",
  410: "gone",
  429: "throttled",
  500: "internal",
};
