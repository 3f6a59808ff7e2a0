/**
 * Reads and writes kernel settings with the program `sysctl`. Deno writes below `/proc` only with all permissions.
 * @module
 */
import { type ProcessRunner, ProgramMissingError } from "../model/ports/ports.ts";

/** Reads and writes settings such as `net.ipv4.conf.all.route_localnet`. */
export class Sysctl {
  /** @param runner runs `sysctl` (package procps) */
  constructor(private readonly runner: ProcessRunner) {}

  /**
   * Reads a setting.
   * @throws {Error} if there is no such setting, or no `sysctl`
   */
  async read(name: string): Promise<string> {
    return (await this.#run(["sysctl", "-n", name])).trim();
  }

  /**
   * Writes a setting.
   * @throws {Error} if the kernel or the container refuses it
   */
  async write(name: string, value: string): Promise<void> {
    await this.#run(["sysctl", "-q", "-w", `${name}=${value}`]);
  }

  async #run(argv: readonly [string, ...string[]]): Promise<string> {
    try {
      const { code, stdout, stderr } = await this.runner.run(argv);
      // sysctl 4 reports a refusal on standard error but exits with 0.
      if (code !== 0 || stderr.trim() !== "") {
        throw new Error(stderr.trim().split("\n")[0] || `exit ${code}`);
      }
      return stdout;
    } catch (error) {
      if (!(error instanceof ProgramMissingError)) throw error;
      throw new Error("the program sysctl cannot be run: install the package procps", {
        cause: error,
      });
    }
  }
}
