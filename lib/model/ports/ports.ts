/**
 * The ports through which the pure core meets the world. Adapters are in `lib/system/` and `main.ts`.
 *
 * @module
 */

/** What a finished process left. */
export interface ProcessResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Text for a program's standard input. Pieces are asked for while the program reads those before. */
export type ProcessInput = string | Iterable<string> | AsyncIterable<string>;

/** Runs another program to its end. */
export interface ProcessRunner {
  /**
   * @param argv the program and its arguments, no shell between
   * @param stdin for its standard input
   * @returns its exit code and output; of a very long standard error, the beginning
   * @throws {ProgramMissingError} where the program is not installed
   * @throws {ProgramFailedError} where it cannot be started now, was killed, or did not end in time
   */
  run(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult>;
}

/** Follows what a program that goes on prints. */
export interface ProcessStreamer {
  /**
   * The lines of its standard output, as they come, until it ends or the signal aborts.
   *
   * @throws {ProgramMissingError} where the program is not installed
   * @throws {ProgramFailedError} where it cannot be started now
   */
  lines(argv: readonly [string, ...string[]], signal: AbortSignal): AsyncIterable<string>;
}

/** Thrown by a `ProcessRunner` for a program that is not installed. */
export class ProgramMissingError extends Error {
  override name = "ProgramMissingError";
  /** @param program what was to be run */
  constructor(readonly program: string, options?: ErrorOptions) {
    super(`cannot run ${program}: is it installed, and in the PATH?`, options);
  }
}

/** Why a program that is installed did not do its work. */
export type ProgramFailure =
  /** The kernel did not start it: no free file descriptor, process or memory. */
  | "not-started"
  /** It did not end in its time, and was killed. */
  | "timeout"
  /** It printed more than is expected of it, and was killed. */
  | "output"
  /** The program crashed. */
  | "crash"
  /** Another signal that signpost did not send ended it: the kernel may be out of memory. */
  | "signal";

/** Thrown by a `ProcessRunner`. It may be over at the next try. The message is one line for the user. */
export class ProgramFailedError extends Error {
  override name = "ProgramFailedError";
  /**
   * @param program what was to be run
   * @param failure the class of the failure
   * @param reason what happened, in words that follow the program's name
   */
  constructor(
    readonly program: string,
    readonly failure: ProgramFailure,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`${program} ${reason}`, options);
  }
}

/** Time, injected so that tests own it. */
export interface Clock {
  /** Wall-clock time, milliseconds since the epoch; may jump. */
  now(): number;
  /** Monotonic time, milliseconds; never goes back. */
  monotonic(): number;
  /**
   * Resolves after so many milliseconds, or at once when the signal aborts (it does not reject). After 0
   * without a signal, what came at sockets meanwhile has been read.
   */
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
}

/** One line per event that a person would care about. Levels as syslog's. */
export interface Logger {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  /** @param level the `-v` level from which the line is printed, as klog's */
  debug(level: number, message: string, fields?: LogFields): void;
}

/** Named values of a log line. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;
