/**
 * `signpost cleanup`: removes every rule of signpost, and of kube-proxy if asked.
 *
 * @module
 */
import { cleanUpKernel, type RemovedRules } from "../backend/iptables/kernel/cleanup_kernel.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import type { Logger } from "../model/ports/ports.ts";
import { Nft } from "../backend/nftables/kernel/nft.ts";
import { deleteTables, KUBE_PROXY_TABLES, OWN_TABLES } from "../backend/nftables/kernel/tables.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import {
  giveBackRouteLocalnet,
  ROUTE_LOCALNET,
  warnOfRouteLocalnet,
} from "../backend/route_localnet.ts";
import { FatalError } from "../model/values/fatal.ts";
import { adviseOnIpvs } from "../backend/leftovers.ts";

/** What `cleanup` needs. */
export interface CleanupOptions {
  /** Remove kube-proxy's rules too. */
  readonly kubeProxy: boolean;
  /** Only print what would be removed. */
  readonly dryRun: boolean;
  readonly runtime: Pick<Runtime, "runner" | "print">;
  readonly logger: Logger;
}

/**
 * Removes the rules, or prints the scripts that would. Where one program fails, the others go on.
 *
 * @throws {FatalError} that names every failure
 */
export async function cleanup(options: CleanupOptions): Promise<void> {
  await cleanRouteLocalnet(options);
  const failures = [...await cleanNftables(options), ...await cleanIptables(options)];
  if (options.kubeProxy) await adviseOnIpvs({ runner: options.runtime.runner, ...options });
  const [first] = failures;
  if (!first) return;
  throw new FatalError(failures.map(({ message }) => message).join("; "), { cause: first });
}

/** Before the rules that keep neighbours from localhost go. */
async function cleanRouteLocalnet({ dryRun, runtime, logger }: CleanupOptions): Promise<void> {
  const { runner } = runtime;
  const isOurs = await giveBackRouteLocalnet({ runner, logger, dryRun });
  if (isOurs && dryRun) await runtime.print(`# sysctl -w ${ROUTE_LOCALNET}=0\n`);
}

async function cleanNftables(
  { kubeProxy, dryRun, runtime, logger }: CleanupOptions,
): Promise<ApplyError[]> {
  const nft = new Nft(runtime.runner);
  const tables = kubeProxy ? [...OWN_TABLES, ...KUBE_PROXY_TABLES] : OWN_TABLES;
  try {
    const script = await deleteTables(nft, tables);
    if (script === "") return [];
    if (dryRun) await runtime.print(`# nft -f -\n${script}`);
    else {
      await nft.apply(script);
      logger.info("removed from nftables", { commands: script.trim().replaceAll("\n", ", ") });
    }
    return [];
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return error.failure === "program-missing" ? [] : [error];
  }
}

async function cleanIptables(options: CleanupOptions): Promise<ApplyError[]> {
  const { kubeProxy, dryRun, runtime, logger } = options;
  const entries = await cleanUpKernel(runtime.runner, { dryRun, kubeProxy });
  for (const entry of entries) if (!entry.failure) await report(entry, options);
  const removed = entries.some(({ text, failure }) => text !== "" && !failure);
  if (removed && !dryRun) {
    await warnOfRouteLocalnet({ runner: runtime.runner, logger, guarded: false });
  }
  return entries.flatMap(({ failure }) => failure ?? []);
}

async function report(
  { program, text, kept }: RemovedRules,
  { dryRun, runtime, logger }: CleanupOptions,
): Promise<void> {
  if (dryRun) await runtime.print(`# ${program} --noflush\n${text}`);
  else logger.info("removed from iptables", { program });
  for (const chain of kept) {
    logger.warn("a rule of another program leads to this chain: it is emptied, not removed", {
      program,
      chain,
    });
  }
}
