/** Removes all rules of signpost, of any mode, and kube-proxy's rules on request. */
import { hostPort } from "../model/cluster/names.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import type { LogFields, Logger, ProcessRunner } from "../model/ports/ports.ts";
import { messageOf } from "../model/values/errors.ts";
import { cleanUpKernel, warnOfKept } from "./iptables/kernel/cleanup.ts";
import { IPVS_INTERFACE, IpvsKernel } from "./ipvs/kernel.ts";
import { deleteTables, KUBE_PROXY_TABLES, Nft, OWN_TABLES, removeTables } from "./nftables/nft.ts";

/** A part that a clean-up removed, or would remove. */
export interface Removal {
  readonly message: string;
  readonly details: LogFields;
  /** The script that removes it, after a line with its program. */
  readonly script: string;
}

interface CleanUpOptions {
  /** True to remove kube-proxy's rules of any mode too. */
  readonly kubeProxy: boolean;
  /** True to list what would be removed. */
  readonly dryRun: boolean;
  /** `ipvs.excludeCIDRs`. */
  readonly excluded: readonly string[];
  readonly removed: (removal: Removal) => Promise<void>;
  readonly runner: ProcessRunner;
  readonly logger: Logger;
}

/** Removes rules. @returns the failures; a program that is not installed does not have rules */
export async function cleanUp(options: CleanUpOptions): Promise<Error[]> {
  return [
    ...await cleanUpTables(options),
    ...await cleanUpChains(options),
    // After the rules, because the kernel keeps sets that a rule names.
    ...options.kubeProxy ? await cleanUpIpvs(options) : [],
  ];
}

async function cleanUpTables(
  { kubeProxy, dryRun, removed, runner, logger }: CleanUpOptions,
): Promise<Error[]> {
  const tables = kubeProxy ? [...OWN_TABLES, ...KUBE_PROXY_TABLES] : OWN_TABLES;
  const nft = new Nft(runner);
  try {
    const script = dryRun
      ? await deleteTables(nft, tables)
      : await removeTables(nft, { tables, logger });
    if (script === "") return [];
    const commands = script.trim().replaceAll("\n", ", ");
    await removed({
      message: "removed from nftables",
      details: { commands },
      script: `# nft -f -\n${script}`,
    });
    return [];
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return error.failure === "program-missing" ? [] : [error];
  }
}

async function cleanUpChains(options: CleanUpOptions): Promise<Error[]> {
  const entries = await cleanUpKernel(options.runner, options);
  for (const entry of entries.filter(({ failure }) => !failure)) {
    const { program, text } = entry;
    const script = `# ${program} --noflush\n${text}`;
    const removal = { message: "removed from iptables", details: { program }, script };
    if (text !== "") await options.removed(removal);
    warnOfKept(entry, options.logger);
  }
  return entries.flatMap(({ failure }) => failure ?? []);
}

/** Removes virtual servers, `kube-ipvs0` and sets. @returns an error with advice */
async function cleanUpIpvs(
  { dryRun, excluded, removed, runner }: CleanUpOptions,
): Promise<Error[]> {
  const kernel = new IpvsKernel(runner, excluded);
  try {
    const state = await kernel.look();
    const sets = await kernel.sets();
    if (!state && sets.length === 0) return [];
    if (state && !dryRun) await kernel.remove(state);
    const problems = dryRun ? [] : await kernel.removeSets();
    if (problems.length > 0) throw new Error(problems.join("; "));
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
  } catch (error) {
    const advice =
      "install ipvsadm, iproute2, coreutils (cat) or ipset and run this again, or run kube-proxy --cleanup";
    return [new Error(`leftovers of kube-proxy's ipvs mode: ${messageOf(error)} (${advice})`)];
  }
}
