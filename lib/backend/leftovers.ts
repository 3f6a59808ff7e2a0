/**
 * Runs `signpost cleanup --kube-proxy` after kube-proxy's ipvs mode, without a grace period.
 * @module
 */
import { hostPort } from "../model/cluster/names.ts";
import { messageOf } from "../model/values/errors.ts";
import type { CleanupOptions } from "./backend.ts";
import type { ProcessRunner } from "../model/ports/ports.ts";
import { IPVS_INTERFACE, IpvsKernel } from "./ipvs/kernel.ts";

/** The options of the clean-up. */
export interface IpvsCleanupOptions extends Pick<CleanupOptions, "dryRun" | "removed"> {
  readonly runner: ProcessRunner;
  /** `ipvs.excludeCIDRs`. */
  readonly excluded: readonly string[];
}

/**
 * Removes virtual servers, `kube-ipvs0` and sets. No rule may use the sets any more.
 * @returns an error with advice if a part failed
 */
export async function cleanUpIpvs(options: IpvsCleanupOptions): Promise<Error[]> {
  const problems = await cleanUp(options).catch((error) => [messageOf(error)]);
  if (problems.length === 0) return [];
  const advice =
    "install ipvsadm, iproute2, coreutils (cat) or ipset and run this again, or run kube-proxy --cleanup";
  return [new Error(`left of kube-proxy's ipvs mode: ${problems.join("; ")} (${advice})`)];
}

/** @returns a line for each part that is left */
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
    message: "removed leftovers of kube-proxy's ipvs mode",
    details: {
      virtualServers: servers.length,
      interface: state && IPVS_INTERFACE,
      sets: sets.length,
    },
    script: [...servers, ...link, ...sets.map((name) => `# ipset destroy ${name}\n`)].join(""),
  });
  return [];
}
