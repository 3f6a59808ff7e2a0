/** Programs that run beside a test, line by line. */

/** A running program, whose lines are kept; ended when disposed. */
export class Background implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  #text = "";

  /** @param argv the program and its arguments */
  constructor(argv: readonly [string, ...string[]]) {
    const [program, ...args] = argv;
    const command = new Deno.Command(program, {
      args,
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    });
    this.#child = command.spawn();
    this.#reading = this.#read();
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** The whole lines that it has printed so far. */
  get lines(): readonly string[] {
    return this.#text.split("\n").slice(0, -1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGTERM");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    await this.#child.status;
    await this.#reading;
  }

  async #read(): Promise<void> {
    for await (const text of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      this.#text += text;
    }
  }
}
