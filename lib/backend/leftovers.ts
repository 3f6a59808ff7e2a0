/**
 * `signpost cleanup --kube-proxy` after kube-proxy's ipvs mode: at once, without a grace time.
 *
 * @module
 */
import { hostPort } from "../model/cluster/names.ts";
import { messageOf } from "../model/values/errors.ts";
import type { CleanupOptions } from "./backend.ts";
import type { ProcessRunner } from "../model/ports/ports.ts";
import { IPVS_INTERFACE, IpvsKernel } from "./ipvs/kernel.ts";

/** What is cleaned up, and how. */
export interface IpvsCleanupOptions extends Pick<CleanupOptions, "dryRun" | "removed"> {
  readonly runner: ProcessRunner;
  /** `ipvs.excludeCIDRs`. */
  readonly excluded: readonly string[];
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
  const { runner, excluded, dryRun, removed } = options;
  const kernel = new IpvsKernel(runner, excluded);
  const state = await kernel.look();
  const sets = await kernel.sets();
  if (!state && sets.length === 0) return [];
  const remove = () => state ? kernel.remove(state) : kernel.removeSets();
  const problems = dryRun ? [] : await remove();
  if (problems.length > 0) return problems;
  const servers = (state?.servers ?? []).map(({ protocol, address, port }) =>
    `# virtual server ${protocol} ${hostPort(address, port)}\n`
  );
  const link = state ? [`# ip link delete ${IPVS_INTERFACE}\n`] : [];
  await removed({
    message: "removed what kube-proxy's ipvs mode left",
    details: {
      virtualServers: servers.length,
      interface: state && IPVS_INTERFACE,
      sets: sets.length,
    },
    script: [...servers, ...link, ...sets.map((name) => `# ipset destroy ${name}\n`)].join(""),
  });
  return [];
}
