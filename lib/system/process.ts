/**
 * Adapter: runs programs with `Deno.Command`.
 *
 * @module
 */
import { type ProcessResult, type ProcessRunner, ProgramMissingError } from "../model/ports.ts";

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
  async run(argv: readonly [string, ...string[]], stdin?: string): Promise<ProcessResult> {
    const [program, ...args] = argv;
    const child = this.#spawn(program, args, stdin === undefined ? "null" : "piped");
    const [output] = await Promise.all([
      child.output(),
      stdin === undefined ? undefined : writeAll(child.stdin, stdin),
    ]);
    const decoder = new TextDecoder();
    return {
      code: output.code,
      stdout: decoder.decode(output.stdout),
      stderr: decoder.decode(output.stderr),
    };
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

/** A child that ends before it has read all says why by its exit code, not by a broken pipe here. */
async function writeAll(stream: WritableStream<Uint8Array>, text: string): Promise<void> {
  const writer = stream.getWriter();
  try {
    await writer.write(new TextEncoder().encode(text));
    await writer.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}
