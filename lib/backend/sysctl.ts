/** Reads and writes kernel settings with the program `sysctl`. Deno writes below `/proc` only with all permissions. */
import { runIfInstalled } from "../model/kernel/dataplane.ts";
import type { Logger, ProcessRunner } from "../model/ports/ports.ts";

export class Sysctl {
  constructor(private readonly runner: ProcessRunner) {}

  /** @throws {Error} if there is no such setting, or no `sysctl` */
  async read(name: string): Promise<string> {
    return (await this.#run(["sysctl", "-n", name])).trim();
  }

  /** @throws {Error} if the kernel or the container refuses it */
  async write(name: string, value: string): Promise<void> {
    await this.#run(["sysctl", "-q", "-w", `${name}=${value}`]);
  }

  async #run(argv: readonly [string, ...string[]]): Promise<string> {
    const result = await runIfInstalled(this.runner, argv);
    if (!result) throw new Error("the program sysctl cannot be run: install the package procps");
    const { code, stdout, stderr } = result;
    // sysctl 4 reports a refusal on standard error but exits with 0.
    if (code === 0 && stderr.trim() === "") return stdout;
    throw new Error(stderr.trim().split("\n")[0] || `exit ${code}`);
  }
}

/** Needed by node ports on 127.0.0.1. Without a protecting rule, neighbours reach local listeners (CVE-2020-8558). */
export const ROUTE_LOCALNET = "net.ipv4.conf.all.route_localnet";

/** The value that other programs expect. It is never reset, because others may need it. */
const ON = "1";

/** Sets `route_localnet` to 1. @throws {Error} if that fails */
export async function setRouteLocalnet(runner: ProcessRunner): Promise<void> {
  const sysctl = new Sysctl(runner);
  if (await sysctl.read(ROUTE_LOCALNET).catch(() => "") !== ON) {
    await sysctl.write(ROUTE_LOCALNET, ON);
  }
}

/**
 * Warns if the setting is still on when no rule of signpost protects local listeners. On the way back, kube-proxy needs
 * it and has a rule of its own. Never rejects.
 */
export async function warnOfRouteLocalnet(
  { runner, logger }: { readonly runner: ProcessRunner; readonly logger: Logger },
): Promise<void> {
  const value = await new Sysctl(runner).read(ROUTE_LOCALNET).catch(() => "0");
  if (value === "0") return;
  logger.warn(
    `${ROUTE_LOCALNET} is still ${value}, as kube-proxy's iptables mode needs it; without kube-proxy, neighbours ` +
      `can reach what listens on 127.0.0.1: run sysctl -w ${ROUTE_LOCALNET}=0`,
  );
}
