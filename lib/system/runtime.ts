/**
 * Adapter: everything that the commands need of this process and machine.
 *
 * @module
 */
import { parseAddress } from "../model/address.ts";
import type { Clock, ProcessRunner, ProcessStreamer } from "../model/ports.ts";
import { SystemClock } from "./clock.ts";
import { type ProbeRequest, sendProbe } from "./probe.ts";
import { DenoProcessRunner } from "./process.ts";
import { denoStreamer } from "./streamer.ts";

/** The world as the commands see it. */
export interface Runtime {
  readonly clock: Clock;
  readonly runner: ProcessRunner;
  readonly streamer: ProcessStreamer;
  /** Number of this process. */
  readonly pid: number;
  /** The kernel's release. */
  osRelease(): string;
  /** Gives memory back to the machine, where V8 was started with `--expose-gc`; takes a moment. */
  releaseMemory(): void;
  /** Number of processors of this machine. */
  cpus(): number;
  /** An environment variable; `undefined` where it is not set. */
  environment(name: string): string | undefined;
  /** The machine's host name. */
  hostname(): string;
  /** The addresses of all network interfaces, canonical. */
  addresses(): readonly string[];
  /** A file as text. */
  readFile(path: string): Promise<string>;
  /** Writes to the standard output. */
  print(text: string): Promise<void>;
  /** Whether the standard output is a terminal. */
  isTerminal(): boolean;
  /** The size of the terminal; 80 by 24 where it does not tell. */
  terminalSize(): { readonly columns: number; readonly rows: number };
  /** Sends the first packet of a connection. */
  sendProbe(request: ProbeRequest): Promise<void>;
  /** Writes a line to the standard error. */
  complain(line: string): void;
}

/** The real one. */
export function systemRuntime(): Runtime {
  return {
    clock: new SystemClock(),
    runner: new DenoProcessRunner(),
    streamer: denoStreamer,
    pid: Deno.pid,
    osRelease: () => Deno.osRelease(),
    releaseMemory,
    cpus: () => navigator.hardwareConcurrency,
    environment: (name) => Deno.env.get(name),
    hostname: () => Deno.hostname(),
    addresses: () => Deno.networkInterfaces().flatMap(({ address }) => parseAddress(address) ?? []),
    readFile: (path) => Deno.readTextFile(path),
    print: (text) => writeAll(Deno.stdout, text),
    sendProbe,
    isTerminal: () => Deno.stdout.isTerminal(),
    terminalSize,
    complain: (line) => Deno.stderr.writeSync(new TextEncoder().encode(`${line}\n`)),
  };
}

async function writeAll(out: typeof Deno.stdout, text: string): Promise<void> {
  let rest = new TextEncoder().encode(text);
  try {
    while (rest.length > 0) rest = rest.subarray(await out.write(rest));
  } catch (error) {
    // The reader has seen enough, as `head` does.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

function terminalSize(): { readonly columns: number; readonly rows: number } {
  try {
    return Deno.consoleSize();
  } catch {
    return { columns: 80, rows: 24 };
  }
}

/** V8's own function (`--expose-gc`): the flavour for a process that is about to run out of memory. */
type GarbageCollector = (options: {
  readonly type: "major";
  readonly execution: "sync";
  readonly flavor: "last-resort";
}) => void;

function releaseMemory(): void {
  const { gc } = globalThis as { readonly gc?: GarbageCollector };
  gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
}
