/**
 * What other proxies leave on a node besides rules. signpost leaves it too, and says so.
 *
 * @module
 */
import type { Logger, ProcessRunner } from "../model/ports/ports.ts";
import { Sysctl } from "./sysctl.ts";

/** What the advice is made with. */
export interface AdviceOptions {
  readonly runner: ProcessRunner;
  readonly logger: Logger;
}

/**
 * The interface that holds all cluster IPs in kube-proxy's ipvs mode. Connections that ip_vs
 * carries end without it; new ones are translated before they would get there.
 */
export async function adviseOnIpvs({ runner, logger }: AdviceOptions): Promise<void> {
  const setting = await readSetting(runner, "net.ipv4.conf.kube-ipvs0.forwarding");
  if (setting === undefined) return;
  logger.warn(
    "kube-proxy's ipvs mode has left the interface kube-ipvs0: when no connection needs it any more, remove it (ip link delete kube-ipvs0; ipvsadm --clear)",
  );
}

/** `undefined` where there is none, or no `sysctl`. */
async function readSetting(runner: ProcessRunner, name: string): Promise<string | undefined> {
  try {
    return await new Sysctl(runner).read(name);
  } catch {
    return undefined;
  }
}
