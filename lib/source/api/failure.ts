/** Classifies failures of requests and watches. Reports an outage as a line for each cause, and one at its end. */
import type { Kind } from "../../model/cluster/objects.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";

type FailureReason =
  | "credentials" // The kubeconfig or a file that it names cannot be used.
  | "connection" // No connection, or TLS was refused.
  | "dropped" // The stream broke off.
  | "stalled" // No byte arrived in time.
  | "garbage" // A protocol error: invalid JSON, half a line, an unknown shape.
  | "late" // An answer began, but did not end in time.
  | "too-large" // A page or line exceeds the memory that it may take.
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

/** Thrown if the API server answers with an error status or an ERROR event. */
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

/** Milliseconds for which a starting server may answer 403, because it has not read its roles yet. */
const ROLES = 5_000;

interface Failing {
  readonly reason: WatchError["reason"];
  /** The monotonic time of its first failure for this reason. */
  readonly since: number;
}

/** Reports the failures of all watches of a server as one outage. */
export class Outage {
  readonly #failing = new Map<Kind, Failing>();
  /** The logged causes. */
  readonly #causes = new Set<string>();
  #began = 0;

  constructor(private readonly clock: Clock, private readonly logger: Logger) {}

  /** Notes a failure. Logs it if its cause is new, and if a restarting server does not explain it. */
  failed(
    kind: Kind,
    { error, isRoutine, retryInMs }: {
      readonly error: WatchError;
      /** True if this may happen at any time, such as the first cut of a stream. */
      readonly isRoutine: boolean;
      readonly retryInMs: number;
    },
  ): void {
    const { reason, message } = error;
    const now = this.clock.monotonic();
    const before = this.#failing.get(kind);
    const since = before?.reason === reason ? before.since : now;
    if (this.#failing.size === 0) this.#began = now;
    this.#failing.set(kind, { reason, since });
    const cause = causeOf(error);
    const isStarting = reason === "forbidden" && now - since < ROLES;
    const fields = { kind, reason, error: message, retryInMs };
    if (isRoutine || isStarting || this.#causes.has(cause)) {
      this.logger.debug(2, `the watch of ${kind} objects failed`, fields);
    } else {
      this.#causes.add(cause);
      this.logger.warn(`the watch of ${kind} objects failed; the rules stay as they are`, fields);
    }
  }

  /** Notes that a watch works, or that the server lacks its resource. */
  ended(kind: Kind): void {
    this.#failing.delete(kind);
    if (this.#failing.size > 0 || this.#causes.size === 0) return;
    this.#causes.clear();
    const seconds = Math.round((this.clock.monotonic() - this.#began) / 1000);
    this.logger.info("all watches work again", { seconds });
  }

  /** Returns true if the server also refuses another kind: then it is starting, or all rights are missing. */
  refusesOtherKinds(kind: Kind): boolean {
    return this.#failing.entries().some(([other, { reason }]) =>
      other !== kind && reason === "forbidden"
    );
  }
}

/** Returns the same text for failures of several kinds that have one cause. */
function causeOf(error: WatchError): string {
  if (error instanceof StatusError) return String(error.status);
  // Other messages name the kind, or data of the server.
  return ["connection", "credentials"].includes(error.reason) ? error.message : error.reason;
}
