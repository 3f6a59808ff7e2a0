/**
 * Adapter: runs programs with `Deno.Command`.
 *
 * @module
 */
import {
  type ProcessInput,
  type ProcessResult,
  type ProcessRunner,
  ProgramMissingError,
} from "../model/ports.ts";

/** Programs get no more of the environment than they need: no NOTIFY_SOCKET, no credentials. */
const ENVIRONMENT = ["PATH", "XTABLES_LOCKFILE"];

/** Runs other programs as children of this process. */
export class DenoProcessRunner implements ProcessRunner {
  readonly #env: Record<string, string>;

  /** Reads the environment once. */
  constructor() {
    const entries = ENVIRONMENT.map((name) => [name, Deno.env.get(name)] as const);
    this.#env = Object.fromEntries(
      entries.filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
  }

  /** @inheritdoc */
  async run(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult> {
    const [program, ...args] = argv;
    const child = this.#spawn(program, args, stdin === undefined ? "null" : "piped");
    const [{ code }, stdout, stderr] = await Promise.all([
      child.status,
      readText(child.stdout),
      readText(child.stderr),
      stdin === undefined ? undefined : writeAll(child.stdin, stdin),
    ]);
    return { code, stdout, stderr };
  }

  #spawn(program: string, args: string[], stdin: "null" | "piped"): Deno.ChildProcess {
    try {
      return new Deno.Command(program, {
        args,
        stdin,
        stdout: "piped",
        stderr: "piped",
        clearEnv: true,
        env: this.#env,
      }).spawn();
    } catch (error) {
      throw new ProgramMissingError(program, { cause: error });
    }
  }
}

/**
 * Bytes that are read at once, through one buffer. `child.output()` would take 64 KiB
 * anew for each stream, for a program that says nothing too: at 30 programs a second that is all
 * that the garbage collector has to do, and malloc does not give it back.
 */
const READ_CHUNK = 16 * 1024;

/** Bytes that are written at once: as many as a pipe holds. */
const WRITE_CHUNK = 64 * 1024;

async function readText(stream: ReadableStream<Uint8Array>): Promise<string> {
  const reader = stream.getReader({ mode: "byob" });
  const decoder = new TextDecoder();
  let text = "";
  let buffer = new Uint8Array(READ_CHUNK);
  for (;;) {
    const { value, done } = await reader.read(buffer);
    if (done || value === undefined) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
    buffer = new Uint8Array(value.buffer);
  }
}

/** Bytes of one UTF-16 unit in UTF-8, at most. */
const MAX_UTF8 = 3;

/** A child that ends before it has read all says why by its exit code, not by a broken pipe here. */
async function writeAll(stream: WritableStream<Uint8Array>, input: ProcessInput): Promise<void> {
  const writer = stream.getWriter();
  const isWhole = typeof input === "string";
  const buffer = new Uint8Array(
    isWhole ? Math.min(WRITE_CHUNK, MAX_UTF8 * input.length) : WRITE_CHUNK,
  );
  try {
    for (const piece of isWhole ? [input] : input) await writeText(writer, piece, buffer);
    await writer.close();
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return;
    // Pieces could not be made: the program sees the end of its input, and then it ends.
    await writer.abort(error);
    throw error;
  }
}

/** By way of a buffer that is not in use until this is done. */
async function writeText(
  writer: WritableStreamDefaultWriter<Uint8Array>,
  text: string,
  buffer: Uint8Array,
): Promise<void> {
  const encoder = new TextEncoder();
  for (let start = 0; start < text.length;) {
    const { read, written } = encoder.encodeInto(cut(text, start, WRITE_CHUNK), buffer);
    await writer.write(buffer.subarray(0, written));
    start += read;
  }
}

/** At most so many characters from a position on, and no half of a pair of surrogates at the end. */
function cut(text: string, start: number, length: number): string {
  const end = Math.min(start + length, text.length);
  const isSplit = end < text.length && /[\ud800-\udbff]/.test(text.charAt(end - 1));
  return text.slice(start, isSplit ? end - 1 : end);
}
