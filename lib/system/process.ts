/** Adapter: runs programs with `Deno.Command`. */
import { messageOf } from "../model/values/errors.ts";
import {
  type Clock,
  type Logger,
  type ProcessInput,
  type ProcessResult,
  type ProcessRunner,
  type ProcessStreamer,
  ProgramFailedError,
  type ProgramFailure,
  ProgramMissingError,
} from "../model/ports/ports.ts";

interface ProcessLimits {
  /** Milliseconds for any program. */
  readonly time: number;
  /** Milliseconds more for each mebibyte of its input. */
  readonly timePerMebibyte: number;
}

/** nft takes a second for 5 MB on a slow machine. The limits are ten times as long. */
const LIMITS: ProcessLimits = { time: 60_000, timePerMebibyte: 10_000 };

/** Matches programs that list the kernel's contents. */
const LISTS = /^(?:nft (?:-\S+ )*list |\S*tables\S*-save\b|conntrack |ipset list|cat\b)/;

/** MiB of standard output after which a program is killed. A table of 1,000,000 elements takes 150. */
const MAX_OUTPUT = { list: 256, other: 16 };

export function maxOutput(argv: readonly string[]): number {
  return MAX_OUTPUT[LISTS.test(argv.join(" ")) ? "list" : "other"];
}

/** The limit of characters of standard error that are kept. Errors come first. */
const MAX_STDERR = 64 * 1024;

export class DenoProcessRunner implements ProcessRunner {
  constructor(private readonly limits: ProcessLimits = LIMITS) {}

  async run(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult> {
    const [program] = argv;
    const child = spawn(argv, { stdin: stdin === undefined ? "null" : "piped", stderr: "piped" });
    const most = maxOutput(argv);
    const tooMuch = () => {
      const reason = `printed more than ${most} MiB and was killed`;
      throw new ProgramFailedError(program, "output", reason);
    };
    const stdout = child.stdout.getReader({ mode: "byob" });
    const stderr = child.stderr.getReader({ mode: "byob" });
    const deadline = startDeadline(program, this.limits);
    const writing = new AbortController();
    const work = Promise.all([
      child.status,
      readText(stdout, most * 2 ** 20, tooMuch),
      readText(stderr, MAX_STDERR),
      stdin !== undefined && writeAll(child.stdin, deadline.counting(stdin), writing.signal),
    ]);
    try {
      const [{ code, signal }, out, err] = await Promise.race([work, deadline.passed]);
      if (signal !== null) throw killed(program, signal);
      return { code, stdout: out, stderr: err };
    } catch (error) {
      if (!(error instanceof ProgramFailedError)) throw error;
      // Its own children may hold the pipes open, so signpost does not wait for them.
      work.catch(() => {});
      kill(child);
      writing.abort(error);
      for (const reader of [stdout, stderr]) reader.cancel().catch(() => {});
      throw error;
    } finally {
      deadline.end();
    }
  }
}

/** Leaves out NOTIFY_SOCKET and credentials. An empty PATH would be the working directory. */
function environment(): Record<string, string> {
  const entries = ["PATH", "XTABLES_LOCKFILE"].map((name) => [name, Deno.env.get(name)]);
  return Object.fromEntries(entries.filter(([, text]) => text));
}

function spawn(
  [program, ...args]: readonly [string, ...string[]],
  pipes: { readonly stdin: "null" | "piped"; readonly stderr: "null" | "piped" },
): Deno.ChildProcess {
  const options = { args, stdout: "piped", clearEnv: true, env: environment(), ...pipes } as const;
  try {
    return new Deno.Command(program, options).spawn();
  } catch (error) {
    throw spawnError(program, error);
  }
}

/** Classifies an error of `Deno.Command.spawn`. Only a program that does not exist counts as missing. */
export function spawnError(program: string, error: unknown): Error {
  if (error instanceof Deno.errors.NotFound) {
    return new ProgramMissingError(program, { cause: error });
  }
  const reason = `cannot be started now: ${messageOf(error)}`;
  return new ProgramFailedError(program, "not-started", reason, { cause: error });
}

/** The signals by which the kernel or the C library ends a program at fault. */
const CRASHES: readonly Deno.Signal[] = ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"];

function killed(program: string, signal: Deno.Signal): ProgramFailedError {
  if (CRASHES.includes(signal)) {
    return new ProgramFailedError(program, "crash", `crashed (${signal})`);
  }
  const hint = signal === "SIGKILL" ? " (out of memory? see the kernel's log)" : "";
  return new ProgramFailedError(program, "signal", `was ended by the signal ${signal}${hint}`);
}

/** Kills a child, also a stopped child. A child may have ended already: the terminal's Ctrl-C goes to children too. */
function kill(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
}

/** Starts the time limit of a program, which grows with the input, and begins again after each piece of input. */
function startDeadline(program: string, { time, timePerMebibyte }: ProcessLimits) {
  const { promise: passed, reject } = Promise.withResolvers<never>();
  passed.catch(() => {});
  let timer: ReturnType<typeof setTimeout> | undefined;
  let characters = 0;
  let isOver = false;
  const start = () => {
    if (isOver) return;
    const limit = time + timePerMebibyte * characters / 2 ** 20;
    timer = setTimeout(() => {
      const reason = `did not end within ${Math.round(limit / 100) / 10} s and was killed`;
      reject(new ProgramFailedError(program, "timeout", reason));
    }, limit);
  };
  start();
  return {
    passed,
    /** Yields the input in pieces. The time to make a piece does not count. */
    async *counting(input: ProcessInput): AsyncIterable<string> {
      clearTimeout(timer);
      for await (const piece of typeof input === "string" ? [input] : input) {
        characters += piece.length;
        start();
        yield piece;
        clearTimeout(timer);
      }
      start();
    },
    end: () => {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

/** Bytes that are read or written at once, through a buffer. `child.output()` takes 64 KiB for each stream. */
const CHUNK = 16 * 1024;

/** Reads text to its end. Text beyond the limit is left out, unless `onMore` throws. */
async function readText(
  reader: ReadableStreamBYOBReader,
  limit: number,
  onMore = () => {},
): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let buffer = new Uint8Array(CHUNK);
  for (;;) {
    const { value, done } = await reader.read(buffer);
    if (done || value === undefined) return text + decoder.decode();
    if (text.length < limit) text += decoder.decode(value, { stream: true });
    else onMore();
    buffer = new Uint8Array(value.buffer);
  }
}

/** Writes the input through a buffer. A child that ends early reports that by its exit code, not by a broken pipe. */
async function writeAll(
  stream: WritableStream<Uint8Array>,
  input: AsyncIterable<string>,
  signal: AbortSignal,
): Promise<void> {
  const writer = stream.getWriter();
  const abort = () => void writer.abort(signal.reason).catch(() => {});
  signal.addEventListener("abort", abort, { once: true });
  const encoder = new TextEncoder();
  const buffer = new Uint8Array(CHUNK);
  try {
    for await (const piece of input) {
      for (let start = 0; start < piece.length;) {
        const { read, written } = encoder.encodeInto(piece.slice(start), buffer);
        await writer.write(buffer.subarray(0, written));
        start += read;
      }
    }
    await writer.close();
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return;
    // A piece could not be made. The abort ends the program's input, and so the program.
    await writer.abort(error).catch(() => {});
    throw error;
  }
}

/** The limit of characters in a line. A program that prints a longer line is ended. */
const MAX_LINE = 1024 * 1024;

export const denoStreamer: ProcessStreamer = { lines };

async function* lines(
  argv: readonly [string, ...string[]],
  signal: AbortSignal,
): AsyncIterable<string> {
  // An earlier abort would not fire the event.
  if (signal.aborted) return;
  const child = spawn(argv, { stdin: "null", stderr: "null" });
  const end = () => kill(child);
  signal.addEventListener("abort", end, { once: true });
  try {
    let rest = "";
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const [first = "", ...others] = chunk.split("\n");
      rest += first;
      for (const each of others) {
        yield rest;
        rest = each;
      }
      if (rest.length > MAX_LINE) return;
    }
  } finally {
    signal.removeEventListener("abort", end);
    // The caller may have stopped before the last line.
    end();
    await child.status;
  }
}

/** Milliseconds after which the log says which program is waited for. */
const SLOW = 30_000;

interface ProgramWatchOptions {
  readonly runner: ProcessRunner;
  readonly clock: Pick<Clock, "sleep">;
  readonly logger: Logger;
}

/** Called with a program that could not be started, was killed, or did not end in time. */
type ProgramFailureListener = (program: string, failure: ProgramFailure) => void;

/** Runs programs with another runner, logs slow programs, and reports failed programs. */
export class ProgramWatch implements ProcessRunner {
  readonly #early: (readonly [string, ProgramFailure])[] = [];
  #listener: ProgramFailureListener = (...failure) => this.#early.push(failure);

  constructor(private readonly options: ProgramWatchOptions) {}

  reportTo(listener: ProgramFailureListener): void {
    for (const failure of this.#early.splice(0)) listener(...failure);
    this.#listener = listener;
  }

  async run(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult> {
    const { runner, clock, logger } = this.options;
    const over = new AbortController();
    const watch = () => {
      void clock.sleep(SLOW, over.signal).then(() => {
        if (over.signal.aborted) return;
        logger.warn("a program takes long; signpost waits, and kills it at its time limit", {
          program: argv.join(" "),
          seconds: SLOW / 1000,
        });
      });
    };
    // The program waits for pieces, which may take long.
    const isWhole = stdin === undefined || typeof stdin === "string";
    if (isWhole) watch();
    try {
      return await runner.run(argv, isWhole ? stdin : withEnd(stdin, watch));
    } catch (error) {
      if (error instanceof ProgramFailedError) this.#listener(error.program, error.failure);
      throw error;
    } finally {
      over.abort();
    }
  }
}

/** Yields the pieces, and calls `end` after the last piece. */
async function* withEnd(
  pieces: Exclude<ProcessInput, string>,
  end: () => void,
): AsyncIterable<string> {
  yield* pieces;
  end();
}
