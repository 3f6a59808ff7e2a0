/**
 * What other proxies leave on a node besides rules. signpost leaves it too, and says so.
 *
 * @module
 */
import type { Logger, ProcessRunner } from "../model/ports.ts";
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

/**
 * `route_localnet` stays as kube-proxy's iptables mode and signpost's set it: nobody knows who
 * else needs it. But the rule that kept strangers from localhost has gone with the others.
 */
export async function adviseOnRouteLocalnet({ runner, logger }: AdviceOptions): Promise<void> {
  if (await readSetting(runner, "net.ipv4.conf.all.route_localnet") !== "1") return;
  logger.info(
    "node ports on localhost are gone, and net.ipv4.conf.all.route_localnet is still 1: where nothing else needs it, set it to 0, so that neighbours cannot reach what listens on 127.0.0.1",
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
