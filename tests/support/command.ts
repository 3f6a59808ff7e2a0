/** Running programs in tests. */

import type { ProcessInput, ProcessRunner } from "../../lib/model/ports/ports.ts";
import { wholeInput } from "./whole_input.ts";

/** The result of a program that has ended. */
export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** How to run a program. */
export interface CommandOptions {
  /** For its standard input; none by default. */
  readonly stdin?: ProcessInput;
  /** Variables added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Its working directory. */
  readonly cwd?: string;
}

/** A program that ended with another exit code than 0. */
export class CommandError extends Error {
  override name = "CommandError";

  constructor(readonly argv: readonly string[], readonly result: CommandResult) {
    const text = (result.stderr || result.stdout).trim();
    super(`${argv.join(" ")}: exit ${result.code}: ${text}`);
  }
}

/** Runs a program to its end, whatever its exit code. */
export async function execute(
  argv: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  const [program, ...args] = argv;
  if (program === undefined) throw new Error("no program to run");
  await using child = new Deno.Command(program, {
    args,
    stdin: options.stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
    ...(options.env && { env: options.env }),
    ...(options.cwd !== undefined && { cwd: options.cwd }),
  }).spawn();
  const fed = options.stdin === undefined
    ? undefined
    : wholeInput(options.stdin).then((text) => feed(child.stdin, text));
  const [output] = await Promise.all([child.output(), fed]);
  const decoder = new TextDecoder();
  return {
    code: output.code,
    stdout: decoder.decode(output.stdout),
    stderr: decoder.decode(output.stderr),
  };
}

/**
 * Runs a program that must succeed.
 *
 * @returns its standard output
 * @throws {CommandError} where it ends with another exit code than 0
 */
export async function run(argv: readonly string[], options: CommandOptions = {}): Promise<string> {
  const result = await execute(argv, options);
  if (result.code !== 0) throw new CommandError(argv, result);
  return result.stdout;
}

/** Returns a runner of programs in a network namespace. */
export function runnerIn(namespace: string): ProcessRunner {
  return {
    run: (argv, stdin) =>
      execute(["ip", "netns", "exec", namespace, ...argv], stdin === undefined ? {} : { stdin }),
  };
}

/** Writes all of the text; a program that ends before it has read it is judged by its exit code. */
async function feed(stdin: WritableStream<Uint8Array>, text: string): Promise<void> {
  try {
    await new Response(text).body?.pipeTo(stdin);
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}
