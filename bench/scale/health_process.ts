/**
 * Asks a daemon for its health again and again, as a process of its own: the bench's work must not
 * look like a silence of the daemon.
 *
 * Arguments: the daemon's process id. For each line of its standard input it writes the longest
 * silence since the last one, as a line of JSON; it ends with its standard input.
 *
 * @module
 */
import { TextLineStream } from "../text_lines.ts";

/** A wait for an answer, in milliseconds. */
export interface Silence {
  /** Until it was there. */
  readonly wait: number;
  /** Milliseconds of the daemon's main thread meanwhile: other programs on the processors do not count. */
  readonly busy: number;
}

/** Milliseconds from an answer to the next question. */
const PAUSE = 10;

const NONE: Silence = { wait: 0, busy: 0 };

async function poll(pid: number): Promise<void> {
  const own = { wait: 0, busy: 0 };
  void (async () => {
    const encoder = new TextEncoder();
    const lines = Deno.stdin.readable
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream());
    for await (const _ of lines) {
      await Deno.stdout.write(encoder.encode(`${JSON.stringify(own)}\n`));
      Object.assign(own, NONE);
    }
    Deno.exit(0);
  })();
  let isUp = false;
  for (;;) {
    const [start, before] = [performance.now(), processorTime(pid)];
    // Until it listens, it is refused at once.
    const isAnswered = await ask().catch(() => false);
    if (isUp) {
      own.wait = Math.max(own.wait, performance.now() - start);
      own.busy = Math.max(own.busy, processorTime(pid) - before);
    }
    isUp ||= isAnswered;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

const REQUEST = new TextEncoder().encode(
  "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
);

/** By a new connection, as kubelet does. */
async function ask(): Promise<boolean> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port: 10256 });
  await connection.write(REQUEST);
  return await connection.read(new Uint8Array(4_096)) !== null;
}

/** Milliseconds of a process's main thread so far; of one that has ended, 0. */
function processorTime(pid: number): number {
  try {
    return parseInt(Deno.readTextFileSync(`/proc/${pid}/schedstat`)) / 1e6;
  } catch {
    return 0;
  }
}

if (import.meta.main) await poll(Number(Deno.args[0]));
