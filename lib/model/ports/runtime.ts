/**
 * What the commands need of this process and machine. The real side is `lib/system/runtime.ts`.
 *
 * @module
 */
import type { NodeLock } from "./node_lock.ts";
import type { Clock, ProcessRunner, ProcessStreamer } from "./ports.ts";

/** What to send, and where from. */
export interface ProbeRequest {
  readonly address: string;
  readonly port: number;
  readonly protocol: "tcp" | "udp" | "sctp";
  /** An address of this machine; `undefined`: whichever the kernel chooses. */
  readonly source: string | undefined;
  /** Milliseconds to wait for an answer; a TCP connection is closed as soon as it is there. */
  readonly timeout: number;
}

/** An address of a network interface. */
export interface InterfaceAddress {
  readonly name: string;
  /** Canonical. */
  readonly address: string;
}

/** What the program was built with. */
export interface Build {
  readonly deno: string;
  /** The version of V8. Deno with QuickJS has a number here, too. */
  readonly v8: string;
  /** The machine, as `x86_64-unknown-linux-gnu`. */
  readonly target: string;
}

/** This process and machine, as the commands see them. */
export interface Runtime {
  readonly clock: Clock;
  readonly runner: ProcessRunner;
  readonly streamer: ProcessStreamer;
  /** What one daemon of this network namespace holds. */
  readonly lock: NodeLock;
  /** Number of this process. */
  readonly pid: number;
  readonly build: Build;
  /** The kernel's release. */
  osRelease(): string;
  /**
   * Gives memory back to the machine a second after such work: after small work if no other came meanwhile. Only where
   * there is little to look through, and V8 was started with `--expose-gc`.
   */
  releaseMemory(after: "small" | "large", signal: AbortSignal): void;
  /** Number of processors of this machine. */
  cpus(): number;
  /** An environment variable; `undefined` where it is not set. */
  environment(name: string): string | undefined;
  /** The folder in which relative paths start. */
  workingDirectory(): string;
  /** The machine's host name. */
  hostname(): string;
  /** Whether the kernel has IPv6 at all: not after `ipv6.disable=1`. */
  hasIpv6(): boolean;
  /** The addresses of all network interfaces, canonical. */
  addresses(): readonly string[];
  /** The same with the names of their interfaces. */
  interfaces(): readonly InterfaceAddress[];
  /**
   * All addresses of a host name, canonical, as this machine's own configuration has them.
   *
   * @throws where the name cannot be resolved
   */
  resolve(host: string): Promise<readonly string[]>;
  /** A file as text. */
  readFile(path: string): Promise<string>;
  /** Writes a text file, where signpost may write. */
  writeFile(path: string, text: string): Promise<void>;
  /** Writes to the standard output. */
  print(text: string): Promise<void>;
  /** Whether the standard output is a terminal. */
  isTerminal(): boolean;
  /** The size of the terminal; 80 by 24 where it does not tell. */
  terminalSize(): { readonly columns: number; readonly rows: number };
  /** Resolves when one of these keys is typed at the terminal, unless the signal aborts first. */
  keyTyped(keys: string, signal: AbortSignal): Promise<void>;
  /** Sends the first packet of a connection. */
  sendProbe(request: ProbeRequest): Promise<void>;
  /** Writes a line to the standard error. */
  complain(line: string): void;
}
