/**
 * Kernel settings, through the program `sysctl`. Deno allows no write below `/proc` without
 * every permission there is.
 *
 * @module
 */
import { type ProcessRunner, ProgramMissingError } from "../model/ports/ports.ts";

/** Reads and writes settings such as `net.ipv4.conf.all.route_localnet`. */
export class Sysctl {
  /** @param runner runs `sysctl` (package procps) */
  constructor(private readonly runner: ProcessRunner) {}

  /**
   * The value of a setting.
   *
   * @throws {Error} where there is no such setting, or no `sysctl`
   */
  async read(name: string): Promise<string> {
    return (await this.#run(["sysctl", "-n", name])).trim();
  }

  /**
   * Sets a value.
   *
   * @throws {Error} where the kernel, or the place that signpost runs in, refuses
   */
  async write(name: string, value: string): Promise<void> {
    await this.#run(["sysctl", "-q", "-w", `${name}=${value}`]);
  }

  async #run(argv: readonly [string, ...string[]]): Promise<string> {
    try {
      const { code, stdout, stderr } = await this.runner.run(argv);
      // sysctl 4 reports a refusal and ends with 0 all the same.
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
