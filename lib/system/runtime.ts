/**
 * Adapter: everything that the commands need of this process and machine.
 *
 * @module
 */
import type { Clock, ProcessRunner } from "../model/ports.ts";
import { SystemClock } from "./clock.ts";
import { DenoProcessRunner } from "./process.ts";

/** The world as the commands see it. */
export interface Runtime {
  readonly clock: Clock;
  readonly runner: ProcessRunner;
  /** An environment variable; `undefined` where it is not set. */
  environment(name: string): string | undefined;
  /** The machine's host name. */
  hostname(): string;
  /** A file as text. */
  readFile(path: string): Promise<string>;
  /** Writes to the standard output. */
  print(text: string): Promise<void>;
  /** Writes a line to the standard error. */
  complain(line: string): void;
}

/** The real one. */
export function systemRuntime(): Runtime {
  return {
    clock: new SystemClock(),
    runner: new DenoProcessRunner(),
    environment: (name) => Deno.env.get(name),
    hostname: () => Deno.hostname(),
    readFile: (path) => Deno.readTextFile(path),
    print: (text) => writeAll(Deno.stdout, text),
    complain: (line) => Deno.stderr.writeSync(new TextEncoder().encode(`${line}\n`)),
  };
}

async function writeAll(out: typeof Deno.stdout, text: string): Promise<void> {
  let rest = new TextEncoder().encode(text);
  while (rest.length > 0) rest = rest.subarray(await out.write(rest));
}
