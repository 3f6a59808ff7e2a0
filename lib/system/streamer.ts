/**
 * Adapter: follows programs with `Deno.Command`.
 *
 * @module
 */
import type { ProcessStreamer } from "../model/ports.ts";
import { spawnError } from "./process.ts";

/** Children of this process that print line by line. */
export const denoStreamer: ProcessStreamer = { lines };

async function* lines(
  argv: readonly [string, ...string[]],
  signal: AbortSignal,
): AsyncIterable<string> {
  const [program, ...args] = argv;
  const child = spawn(program, args);
  const kill = () => {
    try {
      child.kill("SIGTERM");
    } catch (error) {
      // It has ended by itself: the terminal's Ctrl-C goes to children too.
      if (!(error instanceof TypeError)) throw error;
    }
  };
  signal.addEventListener("abort", kill, { once: true });
  try {
    let rest = "";
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const parts = (rest + chunk).split("\n");
      rest = parts.pop() ?? "";
      yield* parts;
    }
  } finally {
    signal.removeEventListener("abort", kill);
    await child.status;
  }
}

function spawn(program: string, args: string[]): Deno.ChildProcess {
  try {
    return new Deno.Command(program, {
      args,
      stdin: "null",
      stdout: "piped",
      stderr: "null",
      clearEnv: true,
      env: { PATH: Deno.env.get("PATH") ?? "" },
    }).spawn();
  } catch (error) {
    throw spawnError(program, error);
  }
}
