/**
 * Taking over from kube-proxy, or from signpost in its other mode, without a gap: our rules are
 * there before, or in the very transaction in which, the others go.
 *
 * @module
 */
import { IPVS_TABLE } from "./ipvs_table.ts";
import { ApplyError, type ApplyFailure } from "../model/kernel/dataplane.ts";
import type { TakeOverReport } from "../model/kernel/take_over_report.ts";
import type { Configuration } from "../model/configuration.ts";
import { messageOf } from "../model/values/errors.ts";
import type { Variant } from "./iptables/kernel/variant.ts";
import {
  cleanUpKernel,
  isOverwritten,
  type RemovedRules,
} from "./iptables/kernel/cleanup_kernel.ts";
import type { Clock, Logger, ProcessRunner } from "../model/ports/ports.ts";
import { Nft } from "./nftables/kernel/nft.ts";
import {
  deleteTables,
  KUBE_PROXY_TABLES,
  OWN_TABLES,
  removeTables,
} from "./nftables/kernel/tables.ts";
import { TABLE } from "./nftables/script/objects.ts";
import { kubeProxyProcesses } from "./kube_proxy_process.ts";
import { IpvsTakeOver } from "./ipvs/take_over.ts";
import type { Rival } from "../findings/facts.ts";

/** What a hand-over works with. */
export interface HandOverOptions {
  /** Finds the variant of iptables that our own rules are in; `undefined`: they are in nftables. */
  readonly variant: (() => Promise<Variant>) | undefined;
  readonly configuration: Pick<Configuration, "ipvs" | "signpost">;
  readonly runner: ProcessRunner;
  /** Of this process. */
  readonly pid: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Removes the others' rules once. If they come back, it says so and lets them be. */
export class HandOver {
  readonly #options: HandOverOptions;
  readonly #nft: Nft;
  readonly #ipvs: IpvsTakeOver;
  #state: "waiting" | "removing" | "done" = "waiting";
  #onFailure: () => void = () => {};
  /** Failures that were told. */
  readonly #failures = new Set<string>();
  #rival: Rival | undefined;

  /** @param options how our own rules get into the kernel */
  constructor(options: HandOverOptions) {
    this.#options = options;
    this.#nft = new Nft(options.runner);
    const { ipvs, signpost } = options.configuration;
    this.#ipvs = new IpvsTakeOver({
      ...options,
      grace: signpost.ipvsGracePeriod,
      excluded: ipvs.excludeCIDRs,
      applyNft: (script) => this.#nft.apply(script),
      isGuarded: async () => (await this.#nft.listTables()).includes(IPVS_TABLE),
      obstacle: () => this.#liveProxy(),
    });
  }

  /** Where the take-over from kube-proxy's ipvs mode is; `undefined`: there is none. */
  get ipvs(): TakeOverReport | undefined {
    return this.#ipvs.report;
  }

  /** A proxy that wrote its rules again after they were removed; `undefined`: there is none. */
  get rival(): Rival | undefined {
    return this.#rival;
  }

  /** Calls back at each removal that fails. */
  reportTo(onFailure: () => void): void {
    this.#onFailure = onFailure;
  }

  /** Returns whether packets meet rules of a proxy: ours of any version and mode, or kube-proxy's. */
  async isServed(): Promise<boolean> {
    const tables = await this.#nft.listHookedTables().catch(() => []);
    if (tables.some((table) => PROXY_TABLES.includes(table))) return true;
    const found = await cleanUpKernel(this.#options.runner, { dryRun: true, kubeProxy: true });
    return found.some(({ isHooked }) => isHooked);
  }

  /** Commands for our first transaction: kube-proxy's nftables tables end as ours begins. */
  async prologue(): Promise<string> {
    if (this.#state !== "waiting") return "";
    const [guard, tables] = await Promise.all([
      this.#ipvs.prologue(),
      // A guard that is no longer needed is there where a signpost before was killed.
      deleteTables(this.#nft, [...KUBE_PROXY_TABLES, IPVS_TABLE]),
    ]);
    return tables + guard;
  }

  /** Called before our rules in iptables mode, which has no transaction of all. Never rejects. */
  async prepare(): Promise<void> {
    if (this.#state === "waiting") await this.#ipvs.prepare();
  }

  /** Called when our rules are in the kernel: removes what is left of the others. Never rejects. */
  async finish(): Promise<void> {
    await this.#ipvs.takeOver();
    await this.#removeOthers();
  }

  /**
   * Removes what kube-proxy's ipvs mode left when no connection needs it, until nothing is left or the
   * signal aborts. Called after each check as well, which may have found it again.
   */
  follow(signal: AbortSignal): Promise<void> {
    return this.#ipvs.run(signal);
  }

  /**
   * Called now and then: tries again what failed, and looks for a kube-proxy that writes its rules
   * again. When its process is seen to be gone, its rules go too. Never rejects.
   *
   * @returns whether our own rules have to be written again, for it had written over them
   */
  async check(): Promise<boolean> {
    if (this.#state === "removing") await this.#removeOthers();
    if (this.#state !== "done") return false;
    // A kube-proxy that could not be seen has made all of it again.
    if (this.#ipvs.report === undefined) await this.#ipvs.takeOver();
    const rules = await this.findProxy();
    const before = this.#rival?.processes ?? [];
    this.#rival = undefined;
    if (rules.length === 0) return false;
    const processes = await kubeProxyProcesses(this.#options);
    if (before.length > 0 && processes.length === 0) {
      // Its last connections have their time, too.
      await this.#ipvs.takeOver();
      await this.#removeOthers();
      return await this.#isOverwritten();
    }
    this.#rival = { rules, processes };
    return false;
  }

  async #removeOthers(): Promise<void> {
    this.#state = "removing";
    const { logger } = this.#options;
    try {
      const removed = [...await this.#removeTables(), ...await this.#removeChains()];
      for (const what of removed) {
        logger.info("took over; the rules of before are removed", { what });
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @returns what was removed, in words */
  async #removeTables(): Promise<string[]> {
    const { variant } = this.#options;
    const tables = [
      ...KUBE_PROXY_TABLES,
      ...variant ? OTHER_MODE : [],
      // Where a signpost before was killed.
      ...this.#ipvs.isUnderWay ? [] : [IPVS_TABLE],
    ];
    const { logger } = this.#options;
    return tablesIn(await removeTables(this.#nft, { tables, logger }).catch(unlessMissing));
  }

  /** @returns what was removed, in words; leaves the state `done` if all was */
  async #removeChains(): Promise<string[]> {
    const { logger } = this.#options;
    const entries = await cleanUpKernel(this.#options.runner, {
      ...await this.#others(),
      dryRun: false,
    });
    for (const { failure } of entries) if (failure) this.#fail(failure);
    for (const { program, kept, left } of entries) {
      for (const chain of kept) {
        logger.warn("a rule of another program leads to this chain: it is emptied, not removed", {
          program,
          chain,
        });
      }
      for (const chain of left) logger.warn(REASONS_TO_LEAVE[chain] ?? "", { program, chain });
    }
    if (!entries.some(({ failure }) => failure)) {
      await this.#ipvs.removeSets();
      this.#state = "done";
    }
    return entries.filter(({ text, failure }) => text !== "" && !failure).map(describe);
  }

  /** Which iptables rules are others'. */
  async #others() {
    const { variant } = this.#options;
    const except = variant ? { except: await variant() } : {};
    return { kubeProxy: true, successor: variant === undefined, ...except };
  }

  /** Whole rules of a proxy that are not ours; what a kubelet makes, or a failure, is none. */
  findProxy(): Promise<string[]> {
    return this.#findProxy().catch(() => []);
  }

  async #findProxy(): Promise<string[]> {
    const { runner, variant } = this.#options;
    const tables = await deleteTables(this.#nft, KUBE_PROXY_TABLES).catch(unlessMissing);
    const entries = await cleanUpKernel(runner, { ...await this.#others(), dryRun: true });
    const overwritten = await this.#isOverwritten();
    return [
      ...tablesIn(tables),
      ...entries.filter(({ owner }) => owner !== undefined).map(describe),
      ...(overwritten ? [`KUBE chains of iptables${await variant?.()}, over ours`] : []),
    ];
  }

  /** A kube-proxy at work would make again what is removed; rejects where that cannot be told. */
  async #liveProxy(): Promise<string | undefined> {
    const [process] = await kubeProxyProcesses(this.#options);
    const isBack = process !== undefined || (await this.#findProxy()).length > 0;
    if (!isBack) return undefined;
    return `kube-proxy is still at work (${
      process ?? "its rules are there"
    }): what its ipvs mode made stays until it is stopped`;
  }

  async #isOverwritten(): Promise<boolean> {
    const { runner, variant } = this.#options;
    return variant !== undefined && await isOverwritten(runner, await variant()).catch(() => false);
  }

  #fail(error: unknown): void {
    this.#onFailure();
    const reason = messageOf(error);
    if (this.#failures.has(reason)) return;
    this.#failures.add(reason);
    this.#options.logger.warn("rules of another proxy could not be removed; trying again later", {
      error: reason,
    });
  }
}

/** How the listing of tables fails where there can be none. */
const NO_NFTABLES: ReadonlySet<ApplyFailure> = new Set(["program-missing", "not-supported"]);

/** Tables that lead packets to endpoints. */
const PROXY_TABLES: readonly string[] = [TABLE, ...KUBE_PROXY_TABLES];

/** Tables of our nftables mode; the guard against what ipvs mode left is of every mode. */
const OTHER_MODE = OWN_TABLES.filter((table) => table !== IPVS_TABLE);

/** By chain. */
const REASONS_TO_LEAVE: Readonly<Record<string, string>> = {
  "filter KUBE-FORWARD":
    "iptables refuses to forward what nothing accepts (policy or last rule of FORWARD), and this chain accepts Service traffic: it stays, but not beyond a reboot; accept forwarded traffic, or run with --proxy-mode iptables",
  "nat KUBE-MARK-MASQ":
    "rules of another program mark packets by this chain: it stays as it is, and what it marks is masqueraded",
};

/** In iptables mode there may be no nft, or no nftables in the kernel, and so no table of its own. */
function unlessMissing(error: unknown): string {
  if (error instanceof ApplyError && NO_NFTABLES.has(error.failure)) return "";
  throw error;
}

function tablesIn(script: string): string[] {
  return [...script.matchAll(/^(?:delete|flush) (table .*)$/gm)].flatMap(([, table]) =>
    table ?? []
  );
}

function describe({ program, owner }: RemovedRules): string {
  const whose = owner === undefined ? "" : ` (of ${owner})`;
  return `KUBE chains of ${program.replace(/-restore$/, "")}${whose}`;
}
