/** Declares the process and the machine as the commands use them. The adapter is `lib/system/runtime.ts`. */
import type { Protocol } from "../cluster/objects.ts";
import type { Clock, ProcessRunner, ProcessStreamer } from "./ports.ts";

export interface LockHolder {
  /** The process number in its own PID namespace. */
  readonly pid: number;
  readonly version: string;
  /** The time of its start, ISO 8601. */
  readonly since: string;
}

/** A lock of the network namespace. The kernel releases it when the process ends. */
export interface NodeLock {
  /** Takes the lock for the life of the process. @returns true if this process holds it @throws {Error} */
  take(self: LockHolder): boolean;
  /** Returns the process that holds the lock; `undefined` if it does not answer. */
  holder(): Promise<LockHolder | undefined>;
}

export interface ProbeRequest {
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
  /** An address of this machine; `undefined` lets the kernel choose. */
  readonly source: string | undefined;
  /** Milliseconds to wait for an answer. A TCP connection is closed at once. */
  readonly timeout: number;
}

export interface InterfaceAddress {
  readonly name: string;
  readonly address: string;
}

export interface Build {
  readonly deno: string;
  readonly v8: string;
  /** True if V8 does not make machine code at run time. */
  readonly jitless: boolean;
  /** The machine, as `x86_64-unknown-linux-gnu`. */
  readonly target: string;
}

export interface DaemonRequest {
  readonly method: "GET" | "POST";
  /** `/v1/status`, `/v1/objects`, `/v1/services`, `/v1/explain`, `/v1/connections`, `/v1/command-line`, `/v1/inputs` or, to post, `/v1/full-sync`. */
  readonly path: string;
  /** Reads the answer. @default as JSON */
  readonly read?: (body: AsyncIterable<Uint8Array<ArrayBuffer>>) => Promise<unknown>;
  /** Milliseconds that the answer may take. @default 10,000 */
  readonly timeout?: number;
}

interface Machine {
  osRelease(): string;
  cpus(): number;
  hostname(): string;
  /** Returns true if the kernel has IPv6, which `ipv6.disable=1` turns off. */
  hasIpv6(): boolean;
  addresses(): readonly string[];
  interfaces(): readonly InterfaceAddress[];
  /** Resolves a host name to canonical addresses. @throws if it cannot be resolved */
  resolve(host: string): Promise<readonly string[]>;
}

interface FileAccess {
  workingDirectory(): string;
  readFile(path: string): Promise<string>;
  /** Reads a regular file of 1 MiB at most within 10 s. So a file can neither block a request nor fill the memory. */
  readRegularFile(path: string): Promise<string>;
  /** Writes a text, or bytes that only root reads, if signpost may write there. */
  writeFile(path: string, data: string | Uint8Array): Promise<void>;
}

interface Terminal {
  print(data: string | Uint8Array): Promise<void>;
  /** Writes a line to the standard error. */
  complain(line: string): void;
  isTerminal(): boolean;
  /** Returns the size of the terminal, or 80 by 24 if unknown. */
  terminalSize(): { readonly columns: number; readonly rows: number };
  /** Yields typed keys as the terminal sends them, such as `q` or `ESC [ A`, until the signal aborts. */
  typedKeys(signal: AbortSignal): AsyncIterable<string>;
}

interface Sockets {
  /** Asks the daemon behind a socket. @returns what `read` returned @throws {Error} without an answer */
  askDaemon(path: string, request: DaemonRequest): Promise<unknown>;
  sendProbe(request: ProbeRequest): Promise<void>;
}

/** Has the data of this process, and the ports through which commands use the machine. */
export interface Runtime extends Machine, FileAccess, Terminal, Sockets {
  readonly clock: Clock;
  readonly runner: ProcessRunner;
  readonly streamer: ProcessStreamer;
  readonly lock: NodeLock;
  readonly pid: number;
  readonly build: Build;
  environment(name: string): string | undefined;
  /** Frees memory unless other work follows within one second. Needs `--expose-gc`. */
  releaseMemory(signal: AbortSignal): void;
}
