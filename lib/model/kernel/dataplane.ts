/**
 * The kernel port: what nftables and iptables have in common for the sync loop.
 *
 * @module
 */
import type { DesiredState, StateChange, StreamedState } from "./desired.ts";
import { ProgramFailedError } from "../ports/ports.ts";

/**
 * Text for `nft` or the restore tools that makes one step, in full or not at all. What is known of a
 * long one may be worked out when it is asked for.
 */
export interface Script {
  readonly kind: "full" | "partial";
  readonly text: string;
  /** Length of what is written of it, known once it is applied. */
  readonly bytes: number;
  /** Number of objects (elements, chains, rules) that it adds or deletes. */
  readonly operations: number;
}

/** How much of a script that is written in portions the kernel has. */
export interface Progress {
  readonly done: number;
  /** An estimate until all Services are worked out. */
  readonly of: number;
}

/**
 * Turns desired state into scripts and applies them.
 *
 * `full` and `changing` compute and touch nothing. After `apply` of a script has failed, the
 * kernel holds what it held before, and the next script must be a full one.
 */
export interface Dataplane<S extends Script = Script> {
  /** A script that leaves the kernel with this state, whatever it held before. */
  full(state: DesiredState): S;
  /**
   * The same of a state whose Services are worked out while the script is applied. Absent: `full` has to wait
   * for all of them.
   */
  streamed?(state: StreamedState): S;
  /**
   * A script for the step that leads to `state` from what was applied last; its size follows the
   * change. `undefined`: this change (of the node, say) needs a full script.
   *
   * @yields where other work can be done; meanwhile `state` must not change
   */
  changing(change: StateChange, state: DesiredState): Generator<undefined, S | undefined>;
  /**
   * Gives the script to the kernel.
   *
   * @param checkpoint called after each part of a script that is written, or compared, in parts; what
   *   it throws ends the script there
   * @throws {ApplyError} where the kernel did not take it
   */
  apply(script: S, checkpoint?: () => void): Promise<void>;
  /** While a script is written in portions, how far that is; no packet meets them before the last one. */
  readonly progress?: Progress | undefined;
}

/** Why the kernel did not take a script. */
export type ApplyFailure =
  /** The program is not installed. */
  | "program-missing"
  /** No CAP_NET_ADMIN. */
  | "not-permitted"
  /** The kernel or the program does not know an expression. */
  | "not-supported"
  /** Something that the script deletes is not there, or what it adds is: the kernel was changed by another. */
  | "conflict"
  /** Another program holds the lock (iptables), or the kernel was busy. */
  | "busy"
  /** The program crashes on what another program has written into the kernel. */
  | "unreadable"
  /** The program could not be started now, was killed, or did not end in time. */
  | "program-failed"
  /** Anything else. */
  | "unknown";

/** Thrown by `Dataplane.apply`. The message is one line that says what to do. */
export class ApplyError extends Error {
  override name = "ApplyError";
  /**
   * @param failure the class of the failure
   * @param message one line for the user
   */
  constructor(readonly failure: ApplyFailure, message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** Makes an `ApplyError` of a program's failure; everything else is thrown as it is. */
export function rethrowAsApplyError(error: unknown): never {
  if (!(error instanceof ProgramFailedError)) throw error;
  throw new ApplyError("program-failed", error.message, { cause: error });
}
