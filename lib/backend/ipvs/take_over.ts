/**
 * Taking over from kube-proxy's ipvs mode: new connections are ours from the first transaction on, and
 * those that IPVS carries live on until they end, or a grace time does. Then its virtual servers,
 * its interface and its sets go.
 *
 * @module
 */
import { messageOf } from "../../model/values/errors.ts";
import type { TakeOverReport } from "../../model/kernel/take_over_report.ts";
import type { Clock, Logger, ProcessRunner } from "../../model/ports/ports.ts";
import { GUARD_REMOVAL, guardScript } from "./guard.ts";
import { countOpen, IPVS_INTERFACE, IpvsKernel, type IpvsState } from "./kernel.ts";
import { advance, begin, type Progress, removed } from "./phase.ts";

/** What it takes. */
export interface IpvsTakeOverOptions {
  readonly runner: ProcessRunner;
  /** Gives a script to nft; rejects where that fails. */
  readonly applyNft: (script: string) => Promise<void>;
  /** Whether the kernel has the table of the guard; rejects where it cannot be told. */
  readonly isGuarded: () => Promise<boolean>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds that open connections have. */
  readonly grace: number;
  /** `ipvs.excludeCIDRs`: where the virtual servers are not kube-proxy's. */
  readonly excluded: readonly string[];
  /** Why nothing may be removed: kube-proxy is at work; `undefined`: nothing is in the way. */
  readonly obstacle: () => Promise<string | undefined>;
}

/** The steps in which something of it is left. */
const WAITING: ReadonlySet<Progress["step"]> = new Set(["wait", "remove"]);

/** Milliseconds between two looks. */
const PERIOD = 5_000;

/** One take-over. */
export class IpvsTakeOver {
  readonly #options: IpvsTakeOverOptions;
  readonly #kernel: IpvsKernel;
  #progress: Progress | undefined;
  #running: Promise<void> | undefined;
  #obstacle: string | undefined;
  /** The guard that the kernel has, or is about to get. */
  #guard = "";
  #told = "";

  /** @param options what it works with */
  constructor(options: IpvsTakeOverOptions) {
    this.#options = options;
    this.#kernel = new IpvsKernel(options.runner, options.excluded);
  }

  /** Where the take-over is; `undefined`: there is none, or it is done. */
  get report(): TakeOverReport | undefined {
    if (!this.#progress || !WAITING.has(this.#progress.step)) return undefined;
    const { connections, until } = this.#progress;
    return { connections, until: this.#wallTime(until), obstacle: this.#obstacle };
  }

  /** Whether its table is to be there. */
  get isUnderWay(): boolean {
    return this.#progress !== undefined && this.#progress.step !== "done";
  }

  /** Commands for our first transaction: from then on nothing new comes to IPVS. Never rejects. */
  async prologue(): Promise<string> {
    const state = await this.#look();
    if (state === undefined) return "";
    return this.#guard = guardScript({ ...state, refusesServers: true });
  }

  /** Before our rules are there, where they are not nftables': no VIP exposes the node's own ports. Never rejects. */
  async prepare(): Promise<void> {
    const state = await this.#look();
    // What is not known to be a virtual server would be refused while only those serve.
    if (!state || state.unread !== undefined) return;
    await this.#install(guardScript({ ...state, refusesServers: false }));
  }

  /**
   * Called when our rules are there, and others' rules are about to go; called again, the grace time
   * begins again. Never rejects.
   */
  async takeOver(): Promise<void> {
    const state = await this.#look();
    // Where this look failed and an earlier one did not, the guard stays until one tells more.
    // Where all is removed, what is left of the time for resets goes on.
    const isReset = this.#progress?.step === "reset";
    if (state === undefined && (this.#guard === "" || isReset)) return;
    const { clock, grace, logger } = this.#options;
    this.#progress = begin({ now: clock.monotonic(), grace });
    if (state === undefined) return;
    await this.#install(guardScript({ ...state, refusesServers: true }));
    logger.info("taking over from kube-proxy's ipvs mode: open connections live on", {
      until: new Date(this.#wallTime(this.#progress.until)).toISOString(),
      virtualServers: state.servers.length,
      addresses: state.vips.length,
    });
  }

  /** Waits and removes, until it is done or the signal aborts. While it does so, one run is enough. */
  run(signal: AbortSignal): Promise<void> {
    return this.#running ??= this.#follow(signal).finally(() => this.#running = undefined);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    while (this.#progress && !signal.aborted) {
      const before = this.#progress;
      const next = await this.#step(before);
      // Unless it has begun again meanwhile.
      if (this.#progress === before) this.#progress = next;
      if (this.#progress.step === "done") return;
      await this.#options.clock.sleep(PERIOD, signal);
    }
  }

  /** @returns where it is then; `done`: nothing is left */
  async #step(before: Progress): Promise<Progress> {
    try {
      const state = await this.#kernel.look();
      // What a kube-proxy that is still there has added is guarded, too.
      if (state) await this.#install(guardScript({ ...state, refusesServers: true }));
      if (state?.unread !== undefined) return this.#waitToRead(before, state.unread);
      const now = this.#options.clock.monotonic();
      const next = advance(before, { connections: state && countOpen(state), now });
      if (next.step !== "remove") this.#obstacle = undefined;
      if (next.step === "reset") return next;
      if (state === undefined) return await this.#end(next);
      if (next.step !== "remove" || !await this.#remove(state)) return { ...next, step: "wait" };
      const after = removed(next, now);
      if (after.step === "done") await this.#end(after);
      this.#options.logger.info("took over from kube-proxy's ipvs mode: what it left is removed", {
        interface: IPVS_INTERFACE,
        virtualServers: state.servers.length,
        connectionsEnded: next.connections,
      });
      return after;
    } catch (error) {
      this.#tell(`what kube-proxy's ipvs mode left is not removed: ${messageOf(error)}`);
      return before;
    }
  }

  /** The guard goes, where nft could make it. */
  async #end(progress: Progress): Promise<Progress> {
    if (this.#guard !== "") await this.#options.applyNft(GUARD_REMOVAL);
    this.#guard = "";
    return progress;
  }

  /**
   * Removes kube-proxy's sets where nothing else is left of it: a signpost before was killed in the
   * middle of that. Called when no rule names them. Never rejects.
   */
  async removeSets(): Promise<void> {
    if (this.isUnderWay) return;
    try {
      this.#tellLeft(await this.#kernel.removeSets());
    } catch (error) {
      this.#tellLeft([messageOf(error)]);
    }
  }

  #tellLeft(problems: readonly string[]): void {
    for (const problem of problems) this.#tell(`of kube-proxy's ipvs mode is left: ${problem}`);
  }

  /** Connections that are not seen may be open. */
  #waitToRead(before: Progress, why: string): Progress {
    this.#obstacle =
      `open connections of kube-proxy's ipvs mode cannot be read, so it stays: ${why}`;
    this.#tell(this.#obstacle);
    return { ...before, idle: 0, step: "wait" };
  }

  /** @returns whether nothing is left */
  async #remove(state: IpvsState): Promise<boolean> {
    this.#obstacle = await this.#findObstacle(state);
    if (this.#obstacle !== undefined) {
      this.#tell(this.#obstacle);
      return false;
    }
    this.#tellLeft(await this.#kernel.remove(state));
    return await this.#kernel.look() === undefined;
  }

  async #findObstacle(state: IpvsState): Promise<string | undefined> {
    const missing = await this.#kernel.missingPrograms(state);
    return missing.length > 0 ? NO_IPVSADM : await this.#options.obstacle();
  }

  /** The clock on the wall may be set meanwhile. */
  #wallTime(monotonic: number): number {
    const { clock } = this.#options;
    return clock.now() + monotonic - clock.monotonic();
  }

  /** Once for each thing to tell. */
  #tell(message: string): void {
    if (message === this.#told) return;
    this.#told = message;
    this.#options.logger.warn(message);
  }

  async #look(): Promise<IpvsState | undefined> {
    try {
      return await this.#kernel.look();
    } catch (error) {
      this.#tell(`it cannot be told what kube-proxy's ipvs mode left: ${messageOf(error)}`);
      return undefined;
    }
  }

  async #install(guard: string): Promise<void> {
    try {
      if (guard === this.#guard && await this.#options.isGuarded()) return;
      await this.#options.applyNft(guard);
      this.#guard = guard;
    } catch (error) {
      this.#tell(
        `new connections may meet kube-proxy's virtual servers until they are removed: ${
          messageOf(error)
        }`,
      );
    }
  }
}

const NO_IPVSADM =
  "kube-proxy's virtual servers can only be removed by ipvsadm, which is not installed (package ipvsadm); or run kube-proxy --cleanup. Until then they are refused new connections";
