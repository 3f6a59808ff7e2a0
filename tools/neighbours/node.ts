/** A node: systemd as PID 1 in namespaces of its own, on an overlay of a root file system. @module */
import { execute } from "../../tests/support/command.ts";
import { eventually } from "../../tests/support/eventually.ts";

/** This checkout. A node has it, Deno and Deno's cache at their own paths. */
export const CHECKOUT = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");
const BOOT = `${CHECKOUT}/tools/neighbours/boot.sh`;
const DENO = Deno.execPath().replace(/\/[^/]*$/, "");
const CACHE = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;
const ENVIRONMENT = [
  ...["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"],
  ...["NO_COLOR=1", "DENO_NO_UPDATE_CHECK=1", `DENO_DIR=${CACHE}`],
];

/** A booted node. Its processes end when it is disposed. */
export class SystemdNode implements AsyncDisposable {
  private constructor(private readonly outer: Deno.ChildProcess, private readonly init: number) {}

  /** Boots a node in a network namespace, and waits for its units. @param options.folder takes all that it writes */
  static async boot(
    { namespace, folder, lower }: Readonly<Record<"namespace" | "folder" | "lower", string>>,
  ): Promise<SystemdNode> {
    const outer = new Deno.Command("nsenter", {
      args: [
        ...[`--net=/run/netns/${namespace}`, "unshare", "-mpui", "--fork", "--kill-child"],
        ...["bash", BOOT, folder, lower, CHECKOUT, DENO, CACHE],
      ],
      stdin: "null",
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    const init = await eventually("systemd is a process", async () => {
      return Number((await execute(["pgrep", "-P", `${outer.pid}`])).stdout);
    });
    const node = new SystemdNode(outer, init);
    await eventually("systemd has booted", async () => {
      return /^(running|degraded)/.test(await node.shell("systemctl is-system-running || true"));
    });
    return node;
  }

  /** Copies a program into the node. @returns its path there */
  async install(program: string): Promise<string> {
    const path = `/usr/local/bin/${program.replace(/^.*\//, "")}`;
    await Deno.copyFile(program, `/proc/${this.init}/root${path}`);
    return path;
  }

  /** Runs a shell script in the node. @throws {Error} with its output if a command of it fails */
  async shell(script: string): Promise<string> {
    const enter = ["nsenter", "-t", `${this.init}`, "-m", "-p", "-u", "-i", "-C", "-n"];
    const argv = [...enter, "env", "-i", ...ENVIRONMENT, "bash", "-euc", script];
    const { code, stdout, stderr } = await execute(argv);
    if (code !== 0) throw new Error(`${script}: exit ${code}: ${stderr}${stdout}`);
    return stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.outer.kill("SIGKILL");
    await this.outer.status;
  }
}
