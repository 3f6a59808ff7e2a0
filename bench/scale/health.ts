/**
 * The bench's end of the process that asks a daemon for its health.
 *
 * @module
 */
import type { Daemon } from "../daemon.ts";
import { TextLineStream } from "../text_lines.ts";
import type { Silence } from "./health_process.ts";

/** Asks a daemon for its health until it is disposed. */
export class HealthPoll implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: ReadableStreamDefaultReader<string>;

  /**
   * @param namespace of the daemon
   * @param daemon whom to ask
   */
  constructor(namespace: string, { pid }: Pick<Daemon, "pid">) {
    const program = new URL("health_process.ts", import.meta.url).pathname;
    this.#child = new Deno.Command("ip", {
      args: ["netns", "exec", namespace, Deno.execPath(), "run", "-qA", program, `${pid}`],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#writer = this.#child.stdin.getWriter();
    this.#lines = this.#child.stdout
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream())
      .getReader();
  }

  /** The longest silence since the start, or since the last call. */
  async longest(): Promise<Silence> {
    await this.#writer.write(new TextEncoder().encode("\n"));
    const { value } = await this.#lines.read();
    return JSON.parse(value ?? "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer.close();
    await this.#lines.cancel();
    await this.#child.status;
  }
}
