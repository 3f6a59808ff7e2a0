/**
 * Adapter: follows programs with `Deno.Command`.
 *
 * @module
 */
import type { ProcessStreamer } from "../model/ports/ports.ts";
import { kill, spawnError } from "./process.ts";

/** Characters; a program whose line is longer is ended, as if it had ended by itself. */
const MAX_LINE = 1024 * 1024;

/** Children of this process that print line by line. */
export const denoStreamer: ProcessStreamer = { lines };

async function* lines(
  argv: readonly [string, ...string[]],
  signal: AbortSignal,
): AsyncIterable<string> {
  // An abort before the first line is asked for is no event any more.
  if (signal.aborted) return;
  const [program, ...args] = argv;
  const child = spawn(program, args);
  const end = () => kill(child, "SIGTERM");
  signal.addEventListener("abort", end, { once: true });
  try {
    let parts: string[] = [];
    let length = 0;
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      let start = 0;
      for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", start)) {
        yield parts.join("") + chunk.slice(start, end);
        [parts, length, start] = [[], 0, end + 1];
      }
      parts.push(chunk.slice(start));
      length += chunk.length - start;
      if (length > MAX_LINE) return;
    }
  } finally {
    signal.removeEventListener("abort", end);
    // Also where no more lines are asked for.
    end();
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
