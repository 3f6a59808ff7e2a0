/**
 * Takes over from kube-proxy's ipvs mode. Existing IPVS connections keep working until they end, for at most the grace
 * period. Then the virtual servers, the interface and the sets are removed.
 */
import { messageOf } from "../../model/values/errors.ts";
import type { TakeOverSummary } from "../../model/status.ts";
import type { Clock, Logger, ProcessRunner } from "../../model/ports/ports.ts";
import {
  countOpen,
  IPVS_INTERFACE,
  IpvsKernel,
  type IpvsState,
  NODE_PORTS,
  type ServerAddress,
} from "./kernel.ts";
import { FAMILIES, type Family, familyOf, NFT_FAMILY } from "../../model/values/address.ts";
import { vipKey } from "../../model/cluster/names.ts";
import { IPVS_TABLE } from "../ipvs_table.ts";

interface Guarded extends Pick<IpvsState, "vips"> {
  readonly servers: readonly ServerAddress[];
  /** False while virtual servers should answer, because signpost's rules are not written yet. */
  readonly refusesServers: boolean;
}

/**
 * Returns the commands that create or replace the guard's table. It keeps new connections from virtual servers, and
 * from the node's own ports at an address of `kube-ipvs0`. IPVS sees packets in the input hook at priority 98, and in
 * the output hook at -98. Packets that our DNAT redirected meet neither.
 */
export function guardScript({ vips, servers, refusesServers }: Guarded): string {
  const each = (text: (family: Family, ip: string) => string) =>
    FAMILIES.map((family) => text(family, NFT_FAMILY[family])).join("");
  const keysOf = (family: Family) =>
    servers.filter(({ address }) => familyOf(address) === family)
      .map(({ address, protocol, port }) => vipKey(address, protocol, port));
  const sets = each((family, ip) =>
    set(`vips${family}`, `${ip} daddr`, vips.filter((vip) => familyOf(vip) === family)) +
    set(`servers${family}`, `${ip} daddr . meta l4proto . tcp dport`, keysOf(family))
  );
  // Skips node ports: a load balancer may use a health-check port at a virtual IP.
  const rules = each((family, ip) =>
    `    ${ip} daddr . meta l4proto . th dport @servers${family} ${
      refusesServers ? "reject" : "return"
    }
    ${ip} daddr @vips${family} tcp dport ${NODE_PORTS.first}-${NODE_PORTS.last} return
    ${ip} daddr @vips${family} reject
`
  );
  // While `kube-ipvs0` exists, packets to virtual IPs are not forwarded, and the node's own stay on `lo`.
  const resets = (way = "") =>
    each((family, ip) => `    ${way}${ip} daddr @vips${family} ${RESET}\n`);
  // With a local virtual IP as the source, the endpoint would answer itself.
  const masquerades = each((family, ip) =>
    `    ${ip} saddr @vips${family} masquerade fully-random\n`
  );
  return `add table ${IPVS_TABLE}
delete table ${IPVS_TABLE}
table ${IPVS_TABLE} {
${sets}  chain guard {
${rules}  }
  chain input {
    type filter hook input priority -1
    ct state new jump guard
  }
  chain output {
    type filter hook output priority -99
    ct state new jump guard
${resets('oifname != "lo" ')}  }
  chain forward {
    type filter hook forward priority -1
${resets()}  }
  chain postrouting {
    type nat hook postrouting priority 99
${masquerades}  }
}
`;
}

/** Ends connections of IPVS that have no route left. */
const RESET = "meta l4proto tcp ct state established reject with tcp reset";

export const GUARD_REMOVAL = `add table ${IPVS_TABLE}\ndelete table ${IPVS_TABLE}\n`;

function set(name: string, key: string, elements: readonly string[]): string {
  const unique = [...new Set(elements)].sort();
  const list = unique.length === 0 ? "" : `    elements = { ${unique.join(", ")} }\n`;
  return `  set ${name} {\n    typeof ${key}\n${list}  }\n`;
}

export interface Look {
  /** Connections in IPVS to kube-proxy's virtual servers; `undefined` if nothing is left of it. */
  readonly connections: number | undefined;
  /** Milliseconds on the monotonic clock. */
  readonly now: number;
}

export interface Progress {
  /** The earliest time of the removal, milliseconds on the monotonic clock. */
  readonly earliest: number;
  /** The time at which open connections end, and in step `reset` the guard, on the monotonic clock. */
  readonly until: number;
  readonly connections: number;
  /** Looks in a row without a connection. */
  readonly idle: number;
  /** `reset`: everything is removed, and packets of old connections get a TCP reset. */
  readonly step: "wait" | "remove" | "reset" | "done";
}

/** A second look finds connections that were being opened at the first one. */
const IDLE_LOOKS = 2;

/** Two sync periods of kube-proxy (30 s by default), after which rewritten rules reveal an unseen process. */
const KUBE_PROXY_SYNCS = 60_000;

export function begin({ now, grace }: { readonly now: number; readonly grace: number }): Progress {
  const earliest = now + Math.min(grace, KUBE_PROXY_SYNCS);
  return { earliest, until: now + grace, connections: 0, idle: 0, step: "wait" };
}

/** Milliseconds during which clients of ended connections get a reset. */
const RESETS = 60_000;

export function removed(before: Progress, now: number): Progress {
  const isOver = before.connections === 0;
  return { ...before, until: now + RESETS, step: isOver ? "done" : "reset" };
}

export function advance(before: Progress, { connections, now }: Look): Progress {
  if (connections === undefined) {
    const isReset = before.step === "reset" && now < before.until;
    return { ...before, connections: 0, idle: 0, step: isReset ? "reset" : "done" };
  }
  const idle = connections === 0 ? before.idle + 1 : 0;
  const isOver = now >= before.until || idle >= IDLE_LOOKS && now >= before.earliest;
  return { ...before, connections, idle, step: isOver ? "remove" : "wait" };
}

interface IpvsTakeOverOptions {
  readonly runner: ProcessRunner;
  /** Gives a script to nft. Rejects if that fails. */
  readonly applyNft: (script: string) => Promise<void>;
  /** Returns true if the kernel has the guard's table. Rejects if that is unknown. */
  readonly isGuarded: () => Promise<boolean>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The grace period of open connections, in milliseconds. */
  readonly grace: number;
  /** `ipvs.excludeCIDRs`: ranges whose virtual servers are not kube-proxy's. */
  readonly excluded: readonly string[];
  /** Returns the reason why nothing may be removed (kube-proxy is running), or `undefined`. */
  readonly obstacle: () => Promise<string | undefined>;
}

/** Milliseconds between two looks. */
const PERIOD = 5_000;

export class IpvsTakeOver {
  readonly #options: IpvsTakeOverOptions;
  readonly #kernel: IpvsKernel;
  #progress: Progress | undefined;
  #running: Promise<void> | undefined;
  #obstacle: string | undefined;
  /** The guard in the kernel, or about to be written. */
  #guard = "";
  #lastWarning = "";

  constructor(options: IpvsTakeOverOptions) {
    this.#options = options;
    this.#kernel = new IpvsKernel(options.runner, options.excluded);
  }

  get report(): TakeOverSummary | undefined {
    if (this.#progress?.step !== "wait") return undefined;
    const { connections, until } = this.#progress;
    const obstacle = this.#obstacle ?? "";
    return { from: "ipvs", connections, until: this.#wallTime(until), obstacle };
  }

  get isUnderWay(): boolean {
    return this.#progress !== undefined && this.#progress.step !== "done";
  }

  /** Returns commands for the first transaction, after which IPVS gets no new connections. Never rejects. */
  async prologue(): Promise<string> {
    const state = await this.#look();
    if (state === undefined) return "";
    return this.#guard = guardScript({ ...state, refusesServers: true });
  }

  /** Writes the guard before rules in iptables mode: no virtual IP exposes the node's own ports. Never rejects. */
  async prepare(): Promise<void> {
    // With unknown virtual servers, the guard would refuse their traffic too early.
    const state = await this.#kernel.look().catch(() => undefined);
    if (state) await this.#install(guardScript({ ...state, refusesServers: false }));
  }

  /** Starts the grace period, also again. Called between writing our rules and removing others'. Never rejects. */
  async takeOver(): Promise<void> {
    const state = await this.#look();
    // If this look fails after an earlier success, the guard stays until the next one.
    const isReset = this.#progress?.step === "reset";
    if (state === undefined && (this.#guard === "" || isReset)) return;
    const { clock, grace, logger } = this.#options;
    this.#progress = begin({ now: clock.monotonic(), grace });
    if (state === undefined) return;
    await this.#install(guardScript({ ...state, refusesServers: true }));
    logger.info("taking over from kube-proxy's ipvs mode: open connections live on", {
      until: this.#wallTime(this.#progress.until),
      virtualServers: state.servers.length,
      addresses: state.vips.length,
    });
  }

  /** Waits and removes, until the take-over is done or the signal aborts. A second call joins the first. */
  run(signal: AbortSignal): Promise<void> {
    return this.#running ??= this.#follow(signal).finally(() => this.#running = undefined);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    while (this.#progress && !signal.aborted) {
      const before = this.#progress;
      const next = await this.#step(before);
      // A new take-over may have begun meanwhile.
      if (this.#progress === before) this.#progress = next;
      if (this.#progress.step === "done") return;
      await this.#options.clock.sleep(PERIOD, signal);
    }
  }

  /** @returns the next state; `done` if nothing is left */
  async #step(before: Progress): Promise<Progress> {
    try {
      const state = await this.#kernel.look();
      // The guard also covers additions of a kube-proxy that still runs.
      if (state) await this.#install(guardScript({ ...state, refusesServers: true }));
      const now = this.#options.clock.monotonic();
      const next = advance(before, { connections: state && countOpen(state), now });
      if (next.step !== "remove") this.#obstacle = undefined;
      if (next.step === "reset") return next;
      if (state === undefined) {
        await this.#end();
        return next;
      }
      if (next.step !== "remove" || !await this.#remove(state)) return { ...next, step: "wait" };
      const after = removed(next, now);
      if (after.step === "done") await this.#end();
      this.#options.logger.info(
        "took over from kube-proxy's ipvs mode: its leftovers are removed",
        {
          interface: IPVS_INTERFACE,
          virtualServers: state.servers.length,
          connectionsEnded: next.connections,
        },
      );
      return after;
    } catch (error) {
      this.#obstacle = `leftovers of kube-proxy's ipvs mode are not removed: ${messageOf(error)}`;
      this.#warn(this.#obstacle);
      return { ...before, idle: 0 };
    }
  }

  /** Removes the guard, if nft could create it. */
  async #end(): Promise<void> {
    if (this.#guard !== "") await this.#options.applyNft(GUARD_REMOVAL);
    this.#guard = "";
  }

  /** Removes sets that a killed signpost left. Called when no rule uses them. Never rejects. */
  async removeSets(): Promise<void> {
    if (this.isUnderWay) return;
    const removing = this.#kernel.removeSets();
    this.#warnOfLeftovers(await removing.catch((error: unknown) => [messageOf(error)]));
  }

  #warnOfLeftovers(problems: readonly string[]): void {
    for (const problem of problems) this.#warn(`leftovers of kube-proxy's ipvs mode: ${problem}`);
  }

  /** @returns true if nothing is left */
  async #remove(state: IpvsState): Promise<boolean> {
    const canRemove = state.servers.length === 0 || await this.#kernel.canRemoveServers();
    this.#obstacle = canRemove ? await this.#options.obstacle() : NO_IPVSADM;
    if (this.#obstacle !== undefined) {
      this.#warn(this.#obstacle);
      return false;
    }
    this.#warnOfLeftovers(await this.#kernel.remove(state));
    return await this.#kernel.look() === undefined;
  }

  /** Converts a monotonic time to RFC 3339. The wall clock may be set meanwhile. */
  #wallTime(monotonic: number): string {
    const { clock } = this.#options;
    return new Date(clock.now() + monotonic - clock.monotonic()).toISOString();
  }

  #warn(message: string): void {
    if (message === this.#lastWarning) return;
    this.#lastWarning = message;
    this.#options.logger.warn(message);
  }

  /** Reads the state for a guard, which needs the virtual IPs at least. Never rejects. */
  async #look(): Promise<IpvsState | undefined> {
    try {
      return await this.#kernel.look();
    } catch (error) {
      this.#warn(`cannot read the leftovers of kube-proxy's ipvs mode: ${messageOf(error)}`);
      const vips = await this.#kernel.vips().catch(() => undefined);
      return vips && { vips, servers: [] };
    }
  }

  async #install(guard: string): Promise<void> {
    try {
      if (guard === this.#guard && await this.#options.isGuarded()) return;
      await this.#options.applyNft(guard);
      this.#guard = guard;
    } catch (error) {
      this.#warn(
        `new connections may meet kube-proxy's virtual servers until they are removed: ${
          messageOf(error)
        }`,
      );
    }
  }
}

const NO_IPVSADM =
  "only ipvsadm can remove kube-proxy's virtual servers: install the package ipvsadm, or run kube-proxy --cleanup. Until then new connections to them are refused";
