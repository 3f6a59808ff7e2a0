/**
 * The program under test, as its users run it: a process in the node's namespace.
 *
 * The environment variable `SIGNPOST_BIN` names it, a command with arguments between spaces, whose
 * program may be a path from the checkout's root (`dist/signpost-…`); by default it is this checkout's `main.ts` with the permissions of `deno.json`.
 */
import { ENVIRONMENT, V8_FLAGS } from "../../tools/compile/arguments.ts";
import { type CommandOptions, type CommandResult, execute } from "./command.ts";
import { eventually } from "./eventually.ts";
import type { Network } from "./network.ts";
import { NODE } from "./topology.ts";

const STOP_DEADLINE = 10_000;

/** The command line that starts signpost, without its own arguments. */
export function signpostCommand(): string[] {
  const named = Deno.env.get("SIGNPOST_BIN")?.trim();
  const path = (name: string) => new URL(`../../${name}`, import.meta.url).pathname;
  if (named) {
    const [program = "", ...args] = named.split(/\s+/);
    // Some tests run it in other folders.
    return [/^[^/]+\//.test(program) ? path(program) : program, ...args];
  }
  const flags = ["-q", "-P", `--v8-flags=${V8_FLAGS}`, "--config", path("deno.json")];
  return [Deno.execPath(), "run", ...flags, path("main.ts")];
}

/** The environment of a daemon, as its unit sets it. */
export const DAEMON_ENVIRONMENT: Readonly<Record<string, string>> = Object.fromEntries(
  ENVIRONMENT.map((each) => each.split("=", 2) as [string, string]),
);

/** Runs signpost in the node to its end, whatever its exit code. */
export function runSignpost(
  network: Network,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  return execute(commandIn(network, args), options);
}

/** signpost as a daemon in the node; stopped when disposed. */
export class Signpost implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  #log = "";
  #ended: Deno.CommandStatus | undefined;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    void child.status.then((status) => this.#ended = status);
    this.#reading = this.#read(child.stderr);
  }

  /**
   * Starts the daemon; `waitForLog` or `until` tells when it is ready.
   *
   * @param options.command another command in the place of `signpostCommand()`
   */
  static start(
    network: Network,
    args: readonly string[],
    options: Omit<CommandOptions, "stdin"> & { readonly command?: readonly string[] } = {},
  ): Signpost {
    const [program = "", ...rest] = commandIn(network, args, options.command);
    const command = new Deno.Command(program, {
      args: rest,
      stdin: "null",
      stdout: "null",
      stderr: "piped",
      env: { ...DAEMON_ENVIRONMENT, ...options.env },
      ...(options.cwd !== undefined && { cwd: options.cwd }),
    });
    return new Signpost(command.spawn());
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Resolves when the process has ended. */
  get status(): Promise<Deno.CommandStatus> {
    return this.#child.status;
  }

  /** How it has ended; `undefined` while it runs. */
  get ended(): Deno.CommandStatus | undefined {
    return this.#ended;
  }

  /** Returns the text on standard error so far. */
  get log(): string {
    return this.#log;
  }

  /** Waits until standard error matches; the failure shows what it says instead. */
  async waitForLog(pattern: RegExp, deadline = 60_000): Promise<RegExpExecArray> {
    return await this.until(`a log line like ${pattern}`, () => pattern.exec(this.#log), deadline);
  }

  /** Waits for a condition; the failure shows the log, and comes at once if the process ends. */
  async until<T>(
    description: string,
    condition: () => T | Promise<T>,
    deadline = 60_000,
  ): Promise<Exclude<T, false | null | undefined>> {
    try {
      const outcome = await eventually(description, async () => {
        const value = await condition();
        if (value) return { value };
        return this.#ended && { value: undefined };
      }, { deadline });
      if (outcome.value === undefined) {
        throw new Error(`${description}: signpost ended with exit code ${this.#ended?.code}`);
      }
      return outcome.value as Exclude<T, false | null | undefined>;
    } catch (error) {
      throw new Error(`${description}; signpost's log:\n${this.#log}`, { cause: error });
    }
  }

  /** Ends the process by SIGTERM, then by SIGKILL where that is not heard. */
  async stop(): Promise<Deno.CommandStatus> {
    this.kill("SIGTERM");
    const timer = setTimeout(() => this.kill("SIGKILL"), STOP_DEADLINE);
    const status = await this.#child.status;
    clearTimeout(timer);
    await this.#reading;
    return status;
  }

  /** Sends a signal; one that has ended does not mind. */
  kill(signal: Deno.Signal): void {
    try {
      this.#child.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #read(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of stream) this.#log += decoder.decode(chunk, { stream: true });
  }
}

function commandIn(
  network: Network,
  args: readonly string[],
  command: readonly string[] = signpostCommand(),
): string[] {
  return ["ip", "netns", "exec", network.namespaceOf(NODE), ...command, ...args];
}
