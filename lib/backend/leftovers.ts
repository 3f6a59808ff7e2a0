/**
 * `signpost cleanup --kube-proxy` after kube-proxy's ipvs mode: at once, without a grace time.
 *
 * @module
 */
import { hostPort } from "../model/cluster/names.ts";
import { messageOf } from "../model/values/errors.ts";
import type { Logger, ProcessRunner } from "../model/ports/ports.ts";
import { IPVS_INTERFACE, IpvsKernel } from "./ipvs/kernel.ts";

/** What is cleaned up, and how. */
export interface IpvsCleanupOptions {
  readonly runner: ProcessRunner;
  readonly logger: Logger;
  /** `ipvs.excludeCIDRs`. */
  readonly excluded: readonly string[];
  /** Only print what would be removed. */
  readonly dryRun: boolean;
  readonly print: (text: string) => Promise<void>;
}

/**
 * Removes virtual servers, `kube-ipvs0` and sets. No rule may name the sets any more.
 *
 * @returns what failed, and what to do
 */
export async function cleanUpIpvs(options: IpvsCleanupOptions): Promise<Error[]> {
  const problems = await cleanUp(options).catch((error) => [messageOf(error)]);
  if (problems.length === 0) return [];
  const advice =
    "install ipvsadm, iproute2, coreutils (cat) or ipset and run this again, or run kube-proxy --cleanup";
  return [new Error(`of kube-proxy's ipvs mode is left: ${problems.join("; ")} (${advice})`)];
}

/** @returns what is left and why, for each a line */
async function cleanUp(options: IpvsCleanupOptions): Promise<string[]> {
  const { runner, logger, excluded, dryRun, print } = options;
  const kernel = new IpvsKernel(runner, excluded);
  const state = await kernel.look();
  const sets = await kernel.sets();
  if (dryRun) {
    const servers = (state?.servers ?? []).map(({ protocol, address, port }) =>
      `# virtual server ${protocol} ${hostPort(address, port)}\n`
    );
    const link = state ? [`# ip link delete ${IPVS_INTERFACE}\n`] : [];
    const text = [...servers, ...link, ...sets.map((name) => `# ipset destroy ${name}\n`)].join("");
    if (text !== "") await print(text);
    return [];
  }
  const problems = state ? await kernel.remove(state) : await kernel.removeSets();
  if (problems.length === 0 && (state || sets.length > 0)) {
    logger.info("removed what kube-proxy's ipvs mode left", {
      virtualServers: state?.servers.length ?? 0,
      interface: state && IPVS_INTERFACE,
      sets: sets.length,
    });
  }
  return problems;
}
