/** Declares the ports between the pure core and the system. Adapters are in `lib/system/` and `main.ts`. */
import type { Protocol } from "../cluster/objects.ts";

export interface ProcessResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Text for a program's standard input. Pieces are computed while the program reads earlier pieces. */
export type ProcessInput = string | Iterable<string> | AsyncIterable<string>;

export interface ProcessRunner {
  /**
   * Runs a program without a shell. Of a very long standard error, it returns the beginning.
   * @throws {ProgramMissingError} if the program is not installed
   * @throws {ProgramFailedError} if it cannot be started now, was killed, or did not end in time
   */
  run(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult>;
}

export interface ProcessStreamer {
  /** Yields the lines of a program's standard output until the end or the abort. It throws as `ProcessRunner`. */
  lines(argv: readonly [string, ...string[]], signal: AbortSignal): AsyncIterable<string>;
}

export class ProgramMissingError extends Error {
  override name = "ProgramMissingError";
  constructor(readonly program: string, options?: ErrorOptions) {
    super(`cannot run ${program}: is it installed, and in the PATH?`, options);
  }
}

export type ProgramFailure =
  | "not-started" // The kernel did not start it: file descriptors, processes or memory are used up.
  | "timeout" // It exceeded its time limit and was killed.
  | "output" // It printed more than its limit, and was killed.
  | "crash" // The program crashed.
  | "signal"; // Another program's signal, or the kernel without memory, ended it.

/** Thrown by a `ProcessRunner`. A retry may succeed. The message is one line for the user. */
export class ProgramFailedError extends Error {
  override name = "ProgramFailedError";
  /** @param reason words that follow the program's name */
  constructor(
    readonly program: string,
    readonly failure: ProgramFailure,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`${program} ${reason}`, options);
  }
}

export interface Clock {
  /** Returns wall-clock time in milliseconds since the epoch. It may jump. */
  now(): number;
  monotonic(): number;
  /**
   * Resolves after the time, 24 days at most, or at the abort. Never rejects. A caller that waits for 0 resumes after sockets
   * were read, and after all other callers that wait for 0 already.
   */
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
}

/** Writes one line per event of interest. Levels are as in syslog. */
export interface Logger {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  /** @param level the `-v` level from which the line is printed, as in klog */
  debug(level: number, message: string, fields?: LogFields): void;
}

export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export interface TcpAddress {
  readonly address: string;
  readonly port: number;
}

export interface TcpConnection {
  /** Copies bytes both ways until both ends have finished, then closes both. Never rejects. */
  join(other: TcpConnection): Promise<void>;
  close(): void;
}

export interface TcpListener {
  /** Stops listening; accepted connections stay open. Resolves when the port is free. */
  close(): Promise<void>;
}

export interface Tcp {
  /** Listens until the listener is closed. `accept` must not throw. @throws {Error} of bind(2) or listen(2) */
  listen(at: TcpAddress, accept: (connection: TcpConnection) => void): TcpListener;
  /** Opens a connection. @throws {Error} if the peer refuses or does not answer in time, or at the abort */
  connect(
    to: TcpAddress,
    options: { readonly timeout: number; readonly signal: AbortSignal },
  ): Promise<TcpConnection>;
}

export interface ProbeTarget extends TcpAddress {
  readonly protocol: Protocol;
  /** `connect`: nothing is sent; `dns`: a query; `readyz`: the API server's health. */
  readonly request: "connect" | "dns" | "readyz";
}

/** Connects and asks. @throws {Error} as `Tcp.connect`, or if the answer is bad */
export type Prober = (
  to: ProbeTarget,
  options: { readonly timeout: number; readonly signal: AbortSignal },
) => Promise<void>;
