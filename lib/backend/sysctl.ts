/** Reads and writes kernel settings with the program `sysctl`. Deno writes below `/proc` only with all permissions. */
import { runIfInstalled } from "../model/kernel/dataplane.ts";
import type { Logger, ProcessRunner } from "../model/ports/ports.ts";

/** Reads a setting. @throws {Error} if the setting or the program `sysctl` does not exist */
export async function readSysctl(runner: ProcessRunner, name: string): Promise<string> {
  return (await sysctl(runner, "-n", name)).trim();
}

/** Writes a setting. @throws {Error} if the kernel or the container refuses it */
export async function writeSysctl(
  runner: ProcessRunner,
  setting: { readonly name: string; readonly value: number },
): Promise<void> {
  await sysctl(runner, "-q", "-w", `${setting.name}=${setting.value}`);
}

async function sysctl(runner: ProcessRunner, ...args: string[]): Promise<string> {
  const result = await runIfInstalled(runner, ["sysctl", ...args]);
  if (!result) throw new Error("the program sysctl cannot be run: install the package procps");
  const { code, stdout, stderr } = result;
  // sysctl 4 reports a refusal on standard error but exits with 0.
  if (code === 0 && stderr.trim() === "") return stdout;
  throw new Error(stderr.trim().split("\n")[0] || `exit ${code}`);
}

/** The setting for node ports on 127.0.0.1. Without a protecting rule, it exposes local listeners (CVE-2020-8558). */
export const ROUTE_LOCALNET = "net.ipv4.conf.all.route_localnet";

/** Sets `route_localnet` to 1. It is never reset, because other programs may need it. @throws {Error} if that fails */
export async function setRouteLocalnet(runner: ProcessRunner): Promise<void> {
  if (await readSysctl(runner, ROUTE_LOCALNET).catch(() => "") === "1") return;
  await writeSysctl(runner, { name: ROUTE_LOCALNET, value: 1 });
}

/** Warns if the setting is still on after signpost's protecting rule is gone. Never rejects. */
export async function warnOfRouteLocalnet(
  { runner, logger }: { readonly runner: ProcessRunner; readonly logger: Logger },
): Promise<void> {
  const value = await readSysctl(runner, ROUTE_LOCALNET).catch(() => "0");
  if (value === "0") return;
  logger.warn(
    `${ROUTE_LOCALNET} is still ${value}, as kube-proxy's iptables mode needs it; without kube-proxy, neighbours ` +
      `can reach what listens on 127.0.0.1: run sysctl -w ${ROUTE_LOCALNET}=0`,
  );
}
