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
export type ProcessInput = string | Iterable<string>;

/** Runs another program to its end. */
export interface ProcessRunner {
  /**
   * @param argv the program and its arguments, no shell between
   * @param stdin for its standard input
   * @returns its exit code and output
   * @throws {ProgramMissingError} where the program is not installed or may not be run
   */
  run(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult>;
}

/** Follows what a program that goes on prints. */
export interface ProcessStreamer {
  /**
   * The lines of its standard output, as they come, until it ends or the signal aborts.
   *
   * @throws {ProgramMissingError} where the program is not installed or may not be run
   */
  lines(argv: readonly [string, ...string[]], signal: AbortSignal): AsyncIterable<string>;
}

/** Thrown by a `ProcessRunner` for a program that is not there or may not be run. */
export class ProgramMissingError extends Error {
  override name = "ProgramMissingError";
  /** @param program what was to be run */
  constructor(readonly program: string, options?: ErrorOptions) {
    super(`cannot run ${program}: is it installed, and in the PATH?`, options);
  }
}

/** Time, injected so that tests own it. */
export interface Clock {
  /** Wall-clock time, milliseconds since the epoch; may jump. */
  now(): number;
  /** Monotonic time, milliseconds; never goes back. */
  monotonic(): number;
  /** Resolves after so many milliseconds, or at once when the signal aborts (it does not reject). */
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
