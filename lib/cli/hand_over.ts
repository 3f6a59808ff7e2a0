/**
 * Taking over from kube-proxy, or from signpost in its other mode, without a gap: our rules are
 * there before, or in the very transaction in which, the others go.
 *
 * @module
 */
import type { Backend } from "../iptables/backend.ts";
import { cleanUpKernel } from "../iptables/cleanup_kernel.ts";
import type { Logger, ProcessRunner } from "../model/ports.ts";
import { Nft } from "../nftables/nft.ts";
import { deleteTables, KUBE_PROXY_TABLES, OWN_TABLES } from "../nftables/tables.ts";

/** What a hand-over works with. */
export interface HandOverOptions {
  readonly mode: "nftables" | "iptables";
  /** The iptables backend that our own rules are in; `undefined` in nftables mode. */
  readonly backend: Backend | undefined;
  readonly runner: ProcessRunner;
  readonly logger: Logger;
}

/** Removes the others' rules once. If they come back, it says so and lets them be. */
export class HandOver {
  readonly #options: HandOverOptions;
  readonly #nft: Nft;
  #done = false;
  #told = false;

  /** @param options how our own rules get into the kernel */
  constructor(options: HandOverOptions) {
    this.#options = options;
    this.#nft = new Nft(options.runner);
  }

  /** Commands for our first transaction: kube-proxy's nftables tables end as ours begins. */
  prologue(): Promise<string> {
    return this.#done ? Promise.resolve("") : deleteTables(this.#nft, KUBE_PROXY_TABLES);
  }

  /** Called when our rules are in the kernel: removes what is left of the others. Never rejects. */
  async finish(): Promise<void> {
    this.#done = true;
    const { logger } = this.#options;
    try {
      const removed = await this.#removeLeftovers({ dryRun: false });
      for (const what of removed) {
        logger.info("took over from another proxy; its rules are removed", { what });
      }
    } catch (error) {
      logger.warn("rules of another proxy could not be removed", { error: String(error) });
    }
  }

  /** Called now and then: warns, once, of a kube-proxy that writes its rules again. */
  async check(): Promise<void> {
    if (!this.#done || this.#told) return;
    const { logger } = this.#options;
    const back = await this.#removeLeftovers({ dryRun: true }).catch(() => []);
    if (back.length === 0) return;
    this.#told = true;
    const processes = await this.#kubeProxyProcesses();
    logger.warn(
      "another proxy keeps writing its rules on this node; stop it (signpost does not fight it)",
      { rules: back.join(", "), processes: processes || "none seen" },
    );
  }

  /** @returns what was, or would be, removed */
  async #removeLeftovers({ dryRun }: { readonly dryRun: boolean }): Promise<string[]> {
    const { mode, backend, runner } = this.#options;
    const tables = mode === "nftables" ? KUBE_PROXY_TABLES : [...KUBE_PROXY_TABLES, ...OWN_TABLES];
    const script = await deleteTables(this.#nft, tables).catch(() => "");
    if (!dryRun && script !== "") await this.#nft.apply(script);
    const except = backend === undefined ? {} : { except: backend };
    const removed = await cleanUpKernel(runner, { dryRun, kubeProxy: true, ...except });
    return [
      ...[...script.matchAll(/^delete (table .*)$/gm)].flatMap(([, table]) => table ?? []),
      ...removed.map(({ program }) => `the KUBE chains of ${program.replace(/-restore$/, "")}`),
    ];
  }

  /** Names and numbers of processes called kube-proxy, as far as they can be seen from here. */
  async #kubeProxyProcesses(): Promise<string> {
    try {
      const { stdout } = await this.#options.runner.run(["pgrep", "-l", "-x", "kube-proxy"]);
      return stdout.trim().split("\n").filter((line) => /^\d+ [\w-]+$/.test(line)).join(", ");
    } catch {
      return "";
    }
  }
}
