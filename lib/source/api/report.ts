/**
 * Keeps the state of one watch for the observer and the log.
 *
 * @module
 */
import type { Kind } from "../../model/cluster/objects.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import type { WatchError } from "./failure.ts";
import type { WatchObserver, WatchState, WatchStatus } from "./observer.ts";

/** The receivers of reports. */
export interface ReportOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer: WatchObserver | undefined;
}

/** Keeps the status of one watch and logs its changes. */
export class WatchReport {
  #status: WatchStatus;
  /** The last logged failure, so that a lasting failure is one line. */
  #warned = "";

  constructor(kind: Kind, private readonly options: ReportOptions) {
    this.#status = {
      kind,
      state: "connecting",
      resourceVersion: "",
      lastEvent: 0,
      lists: 0,
      lastError: "",
    };
  }

  /** Returns the current status. */
  get status(): WatchStatus {
    return this.#status;
  }

  /** Notes a new state of the watch. */
  state(state: WatchState): void {
    if (state !== this.#status.state) this.#update({ state });
  }

  /** Notes that a complete list was delivered. */
  listed(resourceVersion: string, objects: number): void {
    const { kind, lists } = this.#status;
    this.#update({ resourceVersion, lists: lists + 1 });
    this.options.logger.debug(2, `listed ${kind} objects`, { objects, resourceVersion });
  }

  /** Notes events or a bookmark. */
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

  /**
   * Notes a failure after which the watch continues.
   *
   * @param consequence the next state, and its delay in milliseconds
   */
  failed(
    error: WatchError,
    consequence: { readonly state: WatchState; readonly delay: number; readonly loud: boolean },
  ): void {
    const { kind } = this.#status;
    const { state, delay, loud } = consequence;
    this.#update({ state, lastError: error.message });
    const fields = { kind, reason: error.reason, error: error.message, retryInMs: delay };
    if (loud && this.#warned !== error.reason) {
      this.#warned = error.reason;
      this.options.logger.warn(`the watch of ${kind} objects failed, the rules stay`, {
        ...fields,
        retryInMs: Math.round(delay),
      });
    } else {
      this.options.logger.debug(2, `the watch of ${kind} objects failed`, fields);
    }
  }

  #update(change: Partial<WatchStatus>): void {
    this.#status = { ...this.#status, ...change };
    this.options.observer?.watchChanged?.(this.#status);
  }
}
