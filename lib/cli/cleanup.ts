/**
 * `signpost cleanup`: removes every rule of signpost, and of kube-proxy if asked.
 *
 * @module
 */
import { cleanUpKernel } from "../iptables/cleanup_kernel.ts";
import { ApplyError } from "../model/dataplane.ts";
import type { Logger } from "../model/ports.ts";
import { Nft } from "../nftables/nft.ts";
import { deleteTables, KUBE_PROXY_TABLES, OWN_TABLES } from "../nftables/tables.ts";
import type { Runtime } from "../system/runtime.ts";
import { FatalError } from "./fatal.ts";

/** What `cleanup` needs. */
export interface CleanupOptions {
  /** Remove kube-proxy's rules too. */
  readonly kubeProxy: boolean;
  /** Only print what would be removed. */
  readonly dryRun: boolean;
  readonly runtime: Runtime;
  readonly logger: Logger;
}

/**
 * Removes the rules, or prints the scripts that would.
 *
 * @throws {FatalError} where the kernel refuses
 */
export async function cleanup(options: CleanupOptions): Promise<void> {
  try {
    await cleanNftables(options);
    await cleanIptables(options);
  } catch (error) {
    throw error instanceof ApplyError ? new FatalError(error.message, { cause: error }) : error;
  }
}

async function cleanNftables(
  { kubeProxy, dryRun, runtime, logger }: CleanupOptions,
): Promise<void> {
  const nft = new Nft(runtime.runner);
  const tables = kubeProxy ? [...OWN_TABLES, ...KUBE_PROXY_TABLES] : OWN_TABLES;
  const script = await deleteTables(nft, tables).catch((error) => {
    if (error instanceof ApplyError && error.failure === "program-missing") return "";
    throw error;
  });
  if (script === "") return;
  if (dryRun) return await runtime.print(`# nft -f -\n${script}`);
  await nft.apply(script);
  logger.info("removed from nftables", { commands: script.trim().replaceAll("\n", ", ") });
}

async function cleanIptables(
  { kubeProxy, dryRun, runtime, logger }: CleanupOptions,
): Promise<void> {
  for (
    const { program, text, kept } of await cleanUpKernel(runtime.runner, { dryRun, kubeProxy })
  ) {
    if (dryRun) await runtime.print(`# ${program} --noflush\n${text}`);
    else logger.info("removed from iptables", { program });
    for (const chain of kept) {
      logger.warn("a rule of another program leads to this chain: it is emptied, not removed", {
        program,
        chain,
      });
    }
  }
}
