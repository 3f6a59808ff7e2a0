/** Reports the failures of all watches of a server as one outage: a line for each cause, and one at its end. */
import type { Kind } from "../../model/cluster/objects.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { StatusError, type WatchError } from "./failure.ts";

/** Milliseconds for which a server that starts may answer 403, because it has not read its roles yet. */
const ROLES = 5_000;

interface Failing {
  readonly reason: WatchError["reason"];
  /** The monotonic time of its first failure for this reason. */
  readonly since: number;
}

export class Outage {
  readonly #failing = new Map<Kind, Failing>();
  /** The logged causes. */
  readonly #causes = new Set<string>();
  #began = 0;

  constructor(private readonly clock: Clock, private readonly logger: Logger) {}

  /** Notes a failure. It is logged if its cause is new, and if a server that restarts does not explain it. */
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
      this.logger.warn(`the watch of ${kind} objects failed, the rules stay`, fields);
    }
  }

  /** Notes that a watch is up, or that there is nothing to watch. */
  ended(kind: Kind): void {
    this.#failing.delete(kind);
    if (this.#failing.size > 0 || this.#causes.size === 0) return;
    this.#causes.clear();
    const seconds = Math.round((this.clock.monotonic() - this.#began) / 1000);
    this.logger.info("the watches are back", { seconds });
  }

  /** Returns true if the server refuses to show another kind, too: then it is starting, or all rights are missing. */
  refusesOthers(kind: Kind): boolean {
    return this.#failing.entries().some(([other, { reason }]) =>
      other !== kind && reason === "forbidden"
    );
  }
}

/** Returns the same text for failures of several kinds that have one cause. */
function causeOf(error: WatchError): string {
  if (error instanceof StatusError) return String(error.status);
  // Only these messages name neither the kind nor what the server sent.
  return ["connection", "credentials"].includes(error.reason) ? error.message : error.reason;
}
