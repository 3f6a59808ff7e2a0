/** Declares the kernel port that the sync loop uses for nftables and iptables. */
import type { DesiredState, StateChange } from "./desired.ts";
import {
  type ProcessInput,
  type ProcessResult,
  type ProcessRunner,
  ProgramFailedError,
  ProgramMissingError,
} from "../ports/ports.ts";

/** A transaction for `nft` or the restore tools. The text of a long transaction may be computed on access. */
export interface Script {
  readonly kind: "full" | "partial";
  readonly text: string;
  /** The bytes written, known after it is applied. */
  readonly bytes: number;
  /** The number of objects (elements, chains, rules) that it adds or deletes. */
  readonly operations: number;
}

export interface Progress {
  readonly done: number;
  /** An estimate until the last portion. */
  readonly of: number;
}

/** A change of signpost's rules by another program, in words. */
export interface Drift {
  /** The deleted object, such as `element of services4`; `""` if none. */
  readonly missing: string;
  /** The added object, such as `rule of services`; `""` if none. */
  readonly added: string;
  /** The process that made the change, such as `nft (pid 4711)`; `""` if unknown. */
  readonly by: string;
  /** Set if our own sync may explain the difference. A repair compares again. */
  readonly isUnconfirmed?: true;
}

export interface DriftOptions {
  readonly desired: DesiredState;
  readonly onDrift: (drift: Drift) => void;
  /** Called with the reason for a full sync: a setting of the rules changed, or changes were missed. */
  readonly onChange: (reason: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Turns desired state into scripts, and applies them. `full` and `changing` are pure. If `apply` fails, the kernel keeps
 * its state, and the next script must be a full script.
 */
export interface ScriptWriter<S extends Script = Script> {
  /** Returns a script that leads to `state` from any state of the kernel. */
  full(state: DesiredState): S;
  /** Returns a script from the applied state to `state`; `undefined` if only a full script does. */
  changing(change: StateChange, state: DesiredState): Generator<undefined, S | undefined>;
  /** True if the last partial script left deletions, which the next script makes even without a change. */
  readonly isUnfinished?: boolean;
  /** Writes the script. @param checkpoint is called after each part, and may throw @throws {ApplyError} */
  apply(script: S, checkpoint?: () => void): Promise<void>;
  /** The progress of a script in portions. Packets meet its rules after the last portion. */
  readonly progress?: Progress | undefined;
}

/** Writes the rules, and watches what other programs change. */
export interface Dataplane<S extends Script = Script> extends ScriptWriter<S> {
  /**
   * Returns a script that repairs only the drift from the applied state; `undefined` asks for a full sync. No
   * script may be in progress. Never rejects with an `ApplyError`.
   */
  repair(applied: DesiredState): Promise<S | undefined>;
  watchDrift(options: DriftOptions): Promise<void>;
  /** Looks for drift at once; absent if the kernel reports each change. */
  lookForDrift?(options: DriftOptions): Promise<void>;
  /** Lets another proxy's rules decide before ours; absent if they always do. @throws {ApplyError} */
  stepBehind?(): Promise<void>;
}

export type ApplyFailure =
  | "program-missing" // The program is not installed.
  | "not-permitted" // CAP_NET_ADMIN is missing.
  | "owned" // Another program holds our table for itself.
  | "not-supported" // The kernel or the program does not know an expression.
  | "conflict" // The script deletes a missing or adds an existing object: another program changed the kernel.
  | "busy" // Another program holds the lock (iptables), or the kernel is busy.
  | "unreadable" // The program crashes on another program's rules.
  | "program-failed" // The program could not be started, was killed, or did not end in time.
  | "unknown"; // Any other failure.

/** Thrown by `Dataplane.apply`. The message is one line that says what to do. */
export class ApplyError extends Error {
  override name = "ApplyError";
  constructor(readonly failure: ApplyFailure, message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** Throws an `ApplyError` for a program's failure, and any other error unchanged. */
export function rethrowAsApplyError(error: unknown): never {
  if (!(error instanceof ProgramFailedError)) throw error;
  throw new ApplyError("program-failed", error.message, { cause: error });
}

/** Returns `undefined` if the program is not installed. @throws {ApplyError} if it could not run to its end */
export async function runIfInstalled(
  runner: ProcessRunner,
  argv: readonly [string, ...string[]],
  stdin?: ProcessInput,
): Promise<ProcessResult | undefined> {
  try {
    return await runner.run(argv, stdin);
  } catch (error) {
    if (error instanceof ProgramMissingError) return undefined;
    return rethrowAsApplyError(error);
  }
}
