/**
 * Node ports on loopback: what a listener costs beside a direct connection, and in memory.
 *
 * @module
 */
import { Namespaces } from "../../tests/support/namespaces.ts";
import { Libc as NamespaceLibc } from "../../tests/support/libc.ts";
import { FIRST_LISTENER, SERVER_PORT, type Transfer } from "../localhost_process.ts";
import { readMemory } from "../processes.ts";
import { median } from "../statistics.ts";
import { TextLineStream } from "../text_lines.ts";

/** The figures of this part. */
export interface Localhost {
  readonly direct: Transfer;
  readonly listener: Transfer;
  readonly listeners: number;
  /** Milliseconds until all listeners were open. */
  readonly opening: number;
  /** Bytes of anonymous memory for all listeners, and for as many connections that are idle. */
  readonly listenersMemory: number;
  readonly connectionsMemory: number;
}

/** How much is measured. */
export interface LocalhostOptions {
  /** Bytes of each transfer. */
  readonly bytes: number;
  readonly rounds: number;
  readonly listeners: number;
}

/** Milliseconds that a process rests before its memory is read. */
const REST = 2_000;

/** Measures in a namespace that has loopback alone. */
export async function measureLocalhost(
  { bytes, rounds, listeners }: LocalhostOptions,
): Promise<Localhost> {
  await using resources = new AsyncDisposableStack();
  const libc = resources.use(new NamespaceLibc());
  const namespaces = resources.use(await Namespaces.create(libc, ["node"]));
  await namespaces.ip("node", ["link set lo up"]);
  const start = (...args: readonly string[]) =>
    resources.use(new Process(namespaces.fullName("node"), args));
  await start("server").line();
  const empty = start("listeners", "0");
  await empty.line();
  const many = start("listeners", `${listeners}`);
  const { milliseconds: opening } = await many.line<{ readonly milliseconds: number }>();
  const [before, after] = [await memoryOf(empty), await memoryOf(many)];
  await start("holder", `${FIRST_LISTENER}`, `${listeners}`).line();
  const held = await memoryOf(many);
  const [direct, through]: [Transfer[], Transfer[]] = [[], []];
  for (let i = 0; i < rounds; i++) {
    direct.push(await start("client", `${SERVER_PORT}`, `${bytes}`).line());
    through.push(await start("client", `${FIRST_LISTENER}`, `${bytes}`).line());
  }
  return {
    direct: summarise(direct),
    listener: summarise(through),
    listeners,
    opening,
    listenersMemory: after - before,
    connectionsMemory: held - after,
  };
}

async function memoryOf({ pid }: Process): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, REST));
  return (await readMemory(pid)).anonymous;
}

function summarise(transfers: readonly Transfer[]): Transfer {
  return {
    megabytesPerSecond: median(transfers.map(({ megabytesPerSecond }) => megabytesPerSecond)),
    p50: median(transfers.map(({ p50 }) => p50)),
    p99: median(transfers.map(({ p99 }) => p99)),
  };
}

/** A process of `localhost_process.ts`. */
class Process implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #lines: ReadableStreamDefaultReader<string>;

  constructor(namespace: string, args: readonly string[]) {
    const program = new URL("../localhost_process.ts", import.meta.url).pathname;
    const argv = [Deno.execPath(), "run", "--quiet", "-A", program, ...args];
    const child = new Deno.Command("ip", {
      args: ["netns", "exec", namespace, ...argv],
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#child = child;
    this.#lines = child.stdout.pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream()).getReader();
  }

  /** `ip netns exec` becomes the program. */
  get pid(): number {
    return this.#child.pid;
  }

  async line<T>(): Promise<T> {
    const { value, done } = await this.#lines.read();
    if (done) throw new Error("a process of the part localhost ended early");
    return JSON.parse(value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch (error) {
      // It may have ended.
      if (!(error instanceof TypeError)) throw error;
    }
    await this.#lines.cancel();
    await this.#child.status;
  }
}
