/**
 * A node: systemd as PID 1 in namespaces of its own, on an overlay of a root file system.
 *
 * @module
 */
import { type CommandResult, execute } from "../../tests/support/command.ts";
import { eventually } from "../../tests/support/eventually.ts";

const BOOT = new URL("boot.sh", import.meta.url).pathname;
const PATH = "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const ENVIRONMENT = [PATH, "HOME=/root", "LANG=C.UTF-8", "NO_COLOR=1", "DENO_NO_UPDATE_CHECK=1"];

/** Returns the path of a program in a node. */
export function placeOf(program: string): string {
  return `/usr/local/bin/${program.replace(/^.*\//, "")}`;
}

/** The folders and the namespace of a node. */
export interface NodeOptions {
  /** The network namespace, by its name. */
  readonly namespace: string;
  /** An empty folder for all that the node writes. */
  readonly folder: string;
  /** In the form of overlay's `lowerdir`. */
  readonly lower: string;
  /** Mounted at their own paths: the checkout, Deno, Deno's cache. */
  readonly mounts: readonly [checkout: string, deno: string, cache: string];
  /** Programs that are copied into the node. */
  readonly programs: readonly string[];
}

/** A booted node. Its processes end when it is disposed. */
export class SystemdNode implements AsyncDisposable {
  readonly #outer: Deno.ChildProcess;
  readonly #init: number;

  private constructor(outer: Deno.ChildProcess, init: number, readonly cache: string) {
    this.#outer = outer;
    this.#init = init;
  }

  /** Boots a node, and waits until systemd has started its units. */
  static async boot(options: NodeOptions): Promise<SystemdNode> {
    const { namespace, folder, lower, mounts } = options;
    const outer = new Deno.Command("nsenter", {
      args: [
        `--net=/run/netns/${namespace}`,
        ...["unshare", "-mpui", "--fork", "--kill-child"],
        ...["bash", BOOT, folder, lower, ...mounts],
      ],
      stdin: "null",
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    const init = await eventually("systemd is a process", async () => {
      const { stdout } = await execute(["pgrep", "-P", `${outer.pid}`]);
      return Number(stdout) || undefined;
    });
    const node = new SystemdNode(outer, init, mounts[2]);
    await eventually("systemd has booted", async () => {
      const { stdout } = await node.execute(["systemctl", "is-system-running"]);
      return /^(running|degraded)/.test(stdout);
    });
    for (const program of options.programs) {
      await Deno.copyFile(program, `/proc/${init}/root${placeOf(program)}`);
    }
    return node;
  }

  /** Runs a program in the node, whatever its exit code. */
  execute(argv: readonly string[]): Promise<CommandResult> {
    const enter = ["nsenter", "-t", `${this.#init}`, "-m", "-p", "-u", "-i", "-C", "-n"];
    return execute([...enter, "env", "-i", ...ENVIRONMENT, `DENO_DIR=${this.cache}`, ...argv]);
  }

  /**
   * Runs a shell script in the node.
   *
   * @throws {Error} with its output if a command of it fails
   */
  async shell(script: string): Promise<string> {
    const { code, stdout, stderr } = await this.execute(["bash", "-euc", script]);
    if (code !== 0) throw new Error(`${script}: exit ${code}: ${stderr}${stdout}`);
    return stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#outer.kill("SIGKILL");
    await this.#outer.status;
  }
}
