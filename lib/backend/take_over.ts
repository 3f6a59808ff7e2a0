/** Takes over from kube-proxy, or from signpost's other mode, without a gap: signpost's rules come first. */
import { IPVS_TABLE } from "./ipvs_table.ts";
import { ApplyError, type ApplyFailure } from "../model/kernel/dataplane.ts";
import type { TakeOverSummary } from "../model/status.ts";
import type { Configuration } from "../config/configuration.ts";
import { messageOf } from "../model/values/errors.ts";
import type { Variant } from "./iptables/kernel/programs.ts";
import { cleanUpKernel, type RemovedRules, warnOfKept } from "./iptables/kernel/cleanup.ts";
import type { Clock, Logger, ProcessRunner } from "../model/ports/ports.ts";
import { deleteTables, KUBE_PROXY_TABLES, Nft, OWN_TABLES, removeTables } from "./nftables/nft.ts";
import { TABLE } from "./nftables/table.ts";
import { IpvsTakeOver } from "./ipvs/take_over.ts";
import type { Rival } from "../findings/facts.ts";
import type { Runtime } from "../model/ports/runtime.ts";

interface ProxyTakeOverOptions {
  /** Returns the iptables variant of signpost's rules; `undefined` if they are in nftables. */
  readonly variant: (() => Promise<Variant>) | undefined;
  readonly configuration: Pick<Configuration, "ipvs" | "signpost">;
  readonly runner: ProcessRunner;
  readonly pid: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Sync periods between two looks for rules of other proxies. */
const CHECK_OTHERS = 4;

interface TakeOverOptions {
  /** The sync period, in milliseconds. */
  readonly period: number;
  readonly requestFull: (reason: string) => void;
  /** Called after each look for another proxy. */
  readonly looked: () => void;
  readonly signal: AbortSignal;
}

/** Removes other proxies' rules once. Rules that come back are reported, and stay. */
export class ProxyTakeOver {
  readonly #nft: Nft;
  readonly #ipvs: IpvsTakeOver;
  #state: "waiting" | "removing" | "done" = "waiting";
  failures = 0;
  readonly #logged = new Set<string>();
  /** A proxy whose rules came back after their removal. */
  rival: Rival | undefined;
  /** True if a process of the rival was found. When the process has ended, its rules are removed. */
  #isSeen = false;

  constructor(private readonly options: ProxyTakeOverOptions) {
    this.#nft = new Nft(options.runner);
    this.#ipvs = new IpvsTakeOver({
      ...options,
      nft: this.#nft,
      obstacle: () => this.#liveProxy(),
    });
  }

  get ipvs(): TakeOverSummary | undefined {
    return this.#ipvs.report;
  }

  /** Returns true if packets meet a proxy's rules: signpost's of any version and mode, or kube-proxy's. */
  async isServed(): Promise<boolean> {
    const tables = await this.#nft.listHookedTables().catch(() => []);
    if (tables.some((table) => PROXY_TABLES.includes(table))) return true;
    const found = await cleanUpKernel(this.options.runner, { dryRun: true, kubeProxy: true });
    return found.some(({ isHooked }) => isHooked);
  }

  /** Returns commands for the first transaction, which removes kube-proxy's nftables tables. */
  async prologue(): Promise<string> {
    if (this.#state !== "waiting") return "";
    const [guard, tables] = await Promise.all([
      this.#ipvs.prologue(),
      // A killed signpost leaves a guard that is not needed.
      deleteTables(this.#nft, [...KUBE_PROXY_TABLES, IPVS_TABLE]),
    ]);
    return tables + guard;
  }

  /** Prepares rules in iptables mode, which lacks a common transaction with the removal. Never rejects. */
  async prepare(): Promise<void> {
    if (this.#state === "waiting") await this.#ipvs.prepare();
  }

  /** Removes the remaining rules of other proxies, after signpost's rules are in the kernel. Never rejects. */
  async finish(): Promise<void> {
    await this.#ipvs.takeOver();
    await this.#removeOthers();
  }

  /** Removes kube-proxy's ipvs leftovers after connections have ended. Ends when all are gone, or at the abort. */
  follow(signal: AbortSignal): Promise<void> {
    return this.#ipvs.run(signal);
  }

  /** Removes other proxies' rules after ours are written, and looks for new ones until the signal aborts. */
  async run({ period, requestFull, looked, signal }: TakeOverOptions): Promise<void> {
    await this.finish();
    // Not awaited: open connections may need the leftovers for long.
    let following = this.follow(signal);
    while (!signal.aborted) {
      await this.options.clock.sleep(period * CHECK_OTHERS, signal);
      if (signal.aborted) break;
      if (await this.check()) requestFull("kube-proxy has gone");
      looked();
      following = this.follow(signal);
    }
    await following;
  }

  /** Retries removals, and removes the new rules of a proxy that has ended. @returns true if a full sync must follow */
  async check(): Promise<boolean> {
    if (this.#state === "removing") await this.#removeOthers();
    if (this.#state !== "done") return false;
    // A kube-proxy that was not found may have created everything again.
    if (this.#ipvs.report === undefined) await this.#ipvs.takeOver();
    const isOverwritten = await this.look();
    if (!this.#isSeen || !this.rival || this.rival.processes.length > 0) return false;
    this.rival = undefined;
    this.#isSeen = false;
    // Its last connections get a grace period too.
    await this.#ipvs.takeOver();
    await this.#removeOthers();
    return isOverwritten;
  }

  /** Looks for a rival after its rules were removed, without changes. @returns true if it has replaced our rules */
  async look(): Promise<boolean> {
    if (this.#state !== "done") return false;
    const { rules, isOverwritten } = await this.#find().catch(() => NOTHING);
    const isNone = rules.length === 0;
    const processes = isNone ? [] : await kubeProxyProcesses(this.options);
    this.rival = isNone ? undefined : { rules, processes };
    this.#isSeen = !isNone && (this.#isSeen || processes.length > 0);
    return isOverwritten;
  }

  /** Removes tables, then chains, and sets the state `done` if nothing failed. */
  async #removeOthers(): Promise<void> {
    const { variant, runner, logger } = this.options;
    this.#state = "removing";
    const report = (what: string) => logger.info("took over; the old rules are removed", { what });
    try {
      // A killed signpost leaves its guard.
      const guard = this.#ipvs.isUnderWay ? [] : [IPVS_TABLE];
      const tables = [...KUBE_PROXY_TABLES, ...variant ? OTHER_MODE : [], ...guard];
      tablesIn(await removeTables(this.#nft, { tables, logger }).catch(unlessMissing))
        .forEach(report);
      const own = variant ? { except: await variant() } : { successor: true };
      const entries = await cleanUpKernel(runner, { ...own, kubeProxy: true, dryRun: false });
      for (const entry of entries) {
        const { program, left, text, failure } = entry;
        if (failure) this.#fail(failure);
        else if (text !== "") report(describe(entry));
        warnOfKept(entry, logger);
        for (const chain of left) logger.warn(REASONS_TO_LEAVE[chain] ?? "", { program, chain });
      }
      if (entries.some(({ failure }) => failure)) return;
      if (!this.#ipvs.isUnderWay) await this.#ipvs.removeSets();
      this.#state = "done";
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Returns complete rules of other proxies; an empty list after a failure. kubelet's chains do not count. */
  async findProxy(): Promise<readonly string[]> {
    return (await this.#find().catch(() => NOTHING)).rules;
  }

  async #find(): Promise<FoundRules> {
    const own = await this.options.variant?.();
    const tables = await deleteTables(this.#nft, KUBE_PROXY_TABLES).catch(unlessMissing);
    const options = { kubeProxy: true, dryRun: true, ownerOnly: own };
    const entries = await cleanUpKernel(this.options.runner, options);
    const others = entries.filter(({ owner, variant }) => owner !== undefined && variant !== own);
    const isOverwritten = entries.some(({ owner, variant }) =>
      owner === "kube-proxy" && variant === own
    );
    return {
      rules: [
        ...tablesIn(tables),
        ...others.map(describe),
        ...isOverwritten ? [`KUBE chains of iptables${own}, over ours`] : [],
      ],
      isOverwritten,
    };
  }

  /** Returns the reason to wait: a running kube-proxy would restore removed parts. Rejects if that cannot be read. */
  async #liveProxy(): Promise<string | undefined> {
    const [process] = await kubeProxyProcesses(this.options);
    const isBack = process !== undefined || (await this.#find()).rules.length > 0;
    if (!isBack) return undefined;
    return `kube-proxy is still at work (${
      process ?? "its rules are there"
    }): the leftovers of its ipvs mode stay until it is stopped`;
  }

  #fail(error: unknown): void {
    this.failures++;
    const reason = messageOf(error);
    if (this.#logged.has(reason)) return;
    this.#logged.add(reason);
    this.options.logger.warn("rules of another proxy could not be removed; trying again later", {
      error: reason,
    });
  }
}

/** Names the complete rules of other proxies. */
interface FoundRules {
  readonly rules: readonly string[];
  /** True if kube-proxy has replaced signpost's rules. */
  readonly isOverwritten: boolean;
}

const NOTHING: FoundRules = { rules: [], isOverwritten: false };

/** The failures of a node that does not have nftables. */
const NO_NFTABLES: ReadonlySet<ApplyFailure> = new Set(["program-missing", "not-supported"]);

/** Tables that lead packets to endpoints. */
const PROXY_TABLES: readonly string[] = [TABLE, ...KUBE_PROXY_TABLES];

/** Tables of signpost's nftables mode, without the ipvs guard, which both modes use. */
const OTHER_MODE = OWN_TABLES.filter((table) => table !== IPVS_TABLE);

const REASONS_TO_LEAVE: Readonly<Record<string, string>> = {
  "filter KUBE-FORWARD":
    "the chain FORWARD drops forwarded packets, and this chain accepts packets of Services: it stays until the next reboot; accept forwarded packets, or use --proxy-mode iptables",
  "nat KUBE-MARK-MASQ":
    "rules of another program mark packets by this chain: it stays, and signpost masquerades the marked packets",
};

/** Returns `""` if nft or nftables is missing, which iptables mode allows. */
function unlessMissing(error: unknown): string {
  if (error instanceof ApplyError && NO_NFTABLES.has(error.failure)) return "";
  throw error;
}

/** Returns the tables of a script of `deleteTables`, each as `table ip kube-proxy`. */
function tablesIn(script: string): string[] {
  return script.match(/(?<= )table .*/g) ?? [];
}

function describe({ program, owner }: RemovedRules): string {
  const whose = owner === undefined ? "" : ` (of ${owner})`;
  return `KUBE chains of ${program.replace(/-restore$/, "")}${whose}`;
}

/**
 * Returns root's visible processes called kube-proxy in this network namespace, each as `kube-proxy (pid 4711)`.
 * @param daemon the process of signpost's daemon, which has this name if it replaces kube-proxy
 */
export async function kubeProxyProcesses(
  { runner, pid }: Pick<Runtime, "runner" | "pid">,
  daemon = pid,
): Promise<readonly string[]> {
  const here = ["--ns", `${pid}`, "--nslist", "net"];
  try {
    const { stdout } = await runner.run(["pgrep", "-u", "0", ...here, "-x", "kube-proxy"]);
    const found = (stdout.match(/^\d+$/gm) ?? []).filter((each) => each !== `${daemon}`);
    const proxies = await Promise.all(
      found.map(async (each) => await isSignpost(runner, each) ? [] : [`kube-proxy (pid ${each})`]),
    );
    return proxies.flat();
  } catch {
    // Without pgrep (package procps), processes cannot be found.
    return [];
  }
}

/** Returns true if the process is signpost. Its image has a link with kube-proxy's name. */
async function isSignpost(runner: ProcessRunner, pid: string): Promise<boolean> {
  const maps = await runner.run(["cat", `/proc/${pid}/maps`]).catch(() => undefined);
  return maps !== undefined && / \/(?:\S*\/)?signpost$/m.test(maps.stdout);
}
