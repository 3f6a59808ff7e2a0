/**
 * signpost under measurement: its process, its debug log as data, its kernel.
 *
 * @module
 */
import { run } from "../tests/support/command.ts";
import { DAEMON_ENVIRONMENT, signpostCommand } from "../tests/support/signpost.ts";
import { CLUSTER_CIDR, NODE_NAME } from "./cluster.ts";
import { TextLineStream } from "./text_lines.ts";

/** A line of the log. */
export interface LogLine {
  /** `performance.now()` of the bench when it was read. */
  readonly time: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** `adaptive`: none is set. */
type MinSyncPeriod = "adaptive" | "10ms";

/** How to start it. */
export interface DaemonOptions {
  /** Network namespace, by the name that `ip netns` knows. */
  readonly namespace: string;
  readonly kubeconfig: string;
  /** `10ms` by default. */
  readonly minSyncPeriod?: MinSyncPeriod;
  /** A file that takes the process' id: that of a cgroup. */
  readonly cgroup?: string;
  /** An existing folder for the state file; one that goes with the daemon by default. */
  readonly state?: string;
}

/** Mounts private folders for the state file and the socket: those of a real daemon stay as they are. */
function mountPrivate({ state }: DaemonOptions): string {
  const saved = state === undefined ? "-t tmpfs tmpfs" : `--bind ${state}`;
  return [
    "mkdir -p /var/lib/signpost /run/signpost",
    `mount ${saved} /var/lib/signpost`,
    "mount -t tmpfs tmpfs /run/signpost",
  ].join(" && ");
}

/** Milliseconds for a line of the log: what waits for one that never comes says so. */
const PATIENCE = 300_000;

/** Written just before the shell becomes the daemon. */
const STARTED = "started";

/** A running daemon. */
export class Daemon implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  readonly #waiting = new Set<() => void>();
  readonly lines: LogLine[] = [];

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#reading = this.#read(child.stderr);
  }

  /** Starts the process. */
  static start(options: DaemonOptions): Daemon {
    const argv = [...signpostCommand(), ...daemonArguments(options)];
    const script = [mountPrivate(options), `echo ${STARTED} >&2`, 'exec "$@"'].join(" && ");
    const inside = ["ip", "netns", "exec", options.namespace, "sh", "-c", script, "sh", ...argv];
    // The cgroup is joined out here: `ip netns exec` has a /sys of its own.
    const join = options.cgroup === undefined ? "" : `echo $$ > ${options.cgroup} && `;
    const child = new Deno.Command("sh", {
      args: ["-c", `${join}exec "$@"`, "sh", ...inside],
      env: DAEMON_ENVIRONMENT,
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    return new Daemon(child);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /**
   * The first line, at or after the given index, for which the condition holds.
   *
   * @throws {Error} where the process ends before, or no such line comes for minutes
   */
  async line(holds: (line: LogLine) => boolean, from = 0): Promise<LogLine> {
    const late = new Promise<"late">((resolve) => {
      Deno.unrefTimer(setTimeout(resolve, PATIENCE, "late"));
    });
    for (;;) {
      const found = this.lines.slice(from).find(holds);
      if (found) return found;
      const next = new Promise<undefined>((resolve) => this.#waiting.add(() => resolve(undefined)));
      const ended = await Promise.race([next, this.#child.status, late]);
      if (ended === undefined) continue;
      const what = ended === "late"
        ? `logged for ${PATIENCE / 1000} s nothing that was waited for`
        : `ended with exit code ${ended.code}`;
      throw new Error(`signpost ${what}:\n${this.#log()}`);
    }
  }

  /** `performance.now()` at which the process began. */
  async started(): Promise<number> {
    return (await this.line(({ msg }) => msg === STARTED)).time;
  }

  /** The first full sync. */
  firstSync(): Promise<LogLine> {
    return this.line(({ msg, kind }) => msg === "synced" && kind === "full");
  }

  /** Stops the process where it is, until it is disposed. */
  halt(): void {
    this.#child.kill("SIGSTOP");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#kill();
    await this.#child.status;
    await this.#reading;
  }

  /** One that has ended does not mind. */
  #kill(): void {
    try {
      this.#child.kill("SIGTERM");
      this.#child.kill("SIGCONT");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }

  #log(): string {
    return this.lines.slice(-20).map((line) => JSON.stringify(line)).join("\n");
  }

  async #read(stderr: ReadableStream<Uint8Array>): Promise<void> {
    const lines = stderr.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream());
    for await (const text of lines) {
      this.lines.push({ ...parseLine(text), time: performance.now() });
      for (const wake of this.#waiting) wake();
      this.#waiting.clear();
    }
  }
}

/** Prints with `signpost --once` and the same flags. */
export async function printOnce(options: DaemonOptions): Promise<string> {
  const argv = [...signpostCommand(), "--once", ...daemonArguments(options)];
  return await run(["ip", "netns", "exec", options.namespace, ...argv]);
}

function parseLine(text: string): { readonly msg: string } {
  try {
    return JSON.parse(text);
  } catch {
    return { msg: text };
  }
}

function daemonArguments({ kubeconfig, minSyncPeriod = "10ms" }: DaemonOptions): string[] {
  return [
    ...["--kubeconfig", kubeconfig, "--hostname-override", NODE_NAME, "--proxy-mode", "nftables"],
    ...["--cluster-cidr", CLUSTER_CIDR],
    ...minSyncPeriod === "adaptive" ? [] : ["--iptables-min-sync-period", minSyncPeriod],
    ...["--oom-score-adj", "0", "--conntrack-max-per-core", "0"],
    ...["--logging-format", "json", "-v", "2"],
  ];
}
