/**
 * Takes over from kube-proxy's ipvs mode. Existing IPVS connections keep working until they end, for at most the grace
 * period. Then the virtual servers, the interface and the sets are removed.
 */
import type { Configuration } from "../../config/configuration.ts";
import { messageOf } from "../../model/values/errors.ts";
import type { TakeOverSummary } from "../../model/status.ts";
import type { Clock, Logger, ProcessRunner } from "../../model/ports/ports.ts";
import { IPVS_INTERFACE, IpvsKernel, type IpvsState } from "./kernel.ts";
import { FAMILIES, type Family, familyOf, NFT_FAMILY } from "../../model/values/address.ts";
import { frontendKey } from "../../model/cluster/names.ts";
import { IPVS_TABLE } from "../ipvs_table.ts";

/**
 * Returns the commands that create or replace the guard's table. It refuses new connections to virtual servers, and to
 * the node's own ports at an address of `kube-ipvs0`. IPVS gets packets in the input hook at priority 98 and the output
 * hook at -98, unless our DNAT redirected them.
 * @param verdict for virtual servers: `return` lets them answer until signpost's rules are written
 */
export function guardScript({ vips, servers }: IpvsState, verdict: "reject" | "return"): string {
  const each = (text: (family: Family, ip: string) => string) =>
    FAMILIES.map((family) => text(family, NFT_FAMILY[family])).join("");
  const keysOf = (family: Family) =>
    servers.filter(({ address }) => familyOf(address) === family).map(frontendKey);
  const sets = each((family, ip) =>
    set(`vips${family}`, `${ip} daddr`, vips.filter((vip) => familyOf(vip) === family)) +
    set(`servers${family}`, `${ip} daddr . meta l4proto . tcp dport`, keysOf(family))
  );
  // Skips node ports: a load balancer may use a health-check port at a virtual IP.
  const rules = each((family, ip) =>
    `    ${ip} daddr . meta l4proto . th dport @servers${family} ${verdict}
    ${ip} daddr @vips${family} tcp dport ${NODE_PORTS} return
    ${ip} daddr @vips${family} reject
`
  );
  // While `kube-ipvs0` exists, packets to virtual IPs are not forwarded, and the node's own packets stay on `lo`.
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

/** The API server's default range of node ports. */
const NODE_PORTS = "30000-32767";

/** Ends connections of IPVS that have lost their route. */
const RESET = "meta l4proto tcp ct state established reject with tcp reset";

export const GUARD_REMOVAL = `add table ${IPVS_TABLE}\ndelete table ${IPVS_TABLE}\n`;

function set(name: string, key: string, elements: readonly string[]): string {
  const unique = [...new Set(elements)].sort();
  const list = unique.length === 0 ? "" : `    elements = { ${unique.join(", ")} }\n`;
  return `  set ${name} {\n    typeof ${key}\n${list}  }\n`;
}

/** The state of a take-over that is under way. Times are milliseconds on the monotonic clock. */
interface Progress {
  readonly earliest: number;
  /** The time at which open connections end; after the removal, the time at which the guard ends. */
  readonly until: number;
  readonly connections: number;
  /** The number of looks in a row without a connection. */
  readonly idle: number;
  /** True if the leftovers are removed, and packets of old connections get a TCP reset. */
  readonly isRemoved: boolean;
  /** The reason why the removal waits longer; `""` without a reason. */
  readonly obstacle: string;
}

/** Looks without a connection before the removal. The second finds connections that were opened during the first. */
const IDLE_LOOKS = 2;

/** Two sync periods of kube-proxy (30 s by default), after which rewritten rules reveal an unseen process. */
const KUBE_PROXY_SYNCS = 60_000;

/** Milliseconds in which clients of ended connections get a reset. */
const RESETS = 60_000;

interface IpvsTakeOverOptions {
  readonly runner: ProcessRunner;
  /** The part of `Nft` that the guard needs. */
  readonly nft: {
    apply(script: string): Promise<void>;
    listTables(): Promise<readonly string[]>;
  };
  readonly clock: Clock;
  readonly logger: Logger;
  readonly configuration: Pick<Configuration, "ipvs" | "signpost">;
  /** Returns the reason why nothing may be removed (kube-proxy is running), or `undefined`. */
  readonly obstacle: () => Promise<string | undefined>;
}

/** Milliseconds between two looks. */
const PERIOD = 5_000;

export class IpvsTakeOver {
  readonly #kernel: IpvsKernel;
  /** `undefined` before and after a take-over. */
  #progress: Progress | undefined;
  #running: Promise<void> | undefined;
  /** The guard that is in the kernel, or will be written next. */
  #guard = "";
  #lastWarning = "";

  constructor(private readonly options: IpvsTakeOverOptions) {
    this.#kernel = new IpvsKernel(options.runner, options.configuration.ipvs.excludeCIDRs);
  }

  get report(): TakeOverSummary | undefined {
    if (!this.#progress || this.#progress.isRemoved) return undefined;
    const { connections, until, obstacle } = this.#progress;
    return { from: "ipvs", connections, until: this.#wallTime(until), obstacle };
  }

  get isUnderWay(): boolean {
    return this.#progress !== undefined;
  }

  /** Returns commands for the first transaction, after which IPVS does not get new connections. Never rejects. */
  async prologue(): Promise<string> {
    const state = await this.#look();
    if (state === undefined) return "";
    return this.#guard = guardScript(state, "reject");
  }

  /** Writes the guard before rules in iptables mode: virtual IPs must not expose the node's ports. Never rejects. */
  async prepare(): Promise<void> {
    // With unknown virtual servers, the guard would refuse their traffic too early.
    const state = await this.#kernel.look().catch(() => undefined);
    if (state) await this.#install(guardScript(state, "return"));
  }

  /** Starts the grace period, also again. Called between writing our rules and removing others'. Never rejects. */
  async takeOver(): Promise<void> {
    const state = await this.#look();
    // If this look fails after an earlier success, the guard stays until the next look.
    if (state === undefined && (this.#guard === "" || this.#progress?.isRemoved)) return;
    const { configuration, clock, logger } = this.options;
    const grace = configuration.signpost.ipvsGracePeriod;
    const now = clock.monotonic();
    const earliest = now + Math.min(grace, KUBE_PROXY_SYNCS);
    const until = now + grace;
    this.#progress = { earliest, until, connections: 0, idle: 0, isRemoved: false, obstacle: "" };
    if (state === undefined) return;
    await this.#install(guardScript(state, "reject"));
    logger.info("taking over from kube-proxy's ipvs mode: open connections keep working", {
      until: this.#wallTime(until),
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
      const next = await this.#step(before).catch((error) => ({
        ...before,
        idle: 0,
        obstacle: `leftovers of kube-proxy's ipvs mode are not removed: ${messageOf(error)}`,
      }));
      if (next?.obstacle) this.#warn(next.obstacle);
      // A new take-over may have begun during the step.
      if (this.#progress === before) this.#progress = next;
      if (this.#progress) await this.options.clock.sleep(PERIOD, signal);
    }
  }

  /** Looks once. @returns the next state; `undefined` at the end. Rejects if something cannot be read or removed */
  async #step(before: Progress): Promise<Progress | undefined> {
    const { clock, logger } = this.options;
    const state = await this.#kernel.look();
    const now = clock.monotonic();
    if (state === undefined) {
      if (before.isRemoved && now < before.until) return before;
      return await this.#end();
    }
    // A kube-proxy that still runs may have added virtual servers.
    await this.#install(guardScript(state, "reject"));
    const connections = state.servers.reduce((sum, { open }) => sum + open, 0);
    const idle = connections === 0 ? before.idle + 1 : 0;
    const next = { ...before, connections, idle, isRemoved: false, obstacle: "" };
    const isOver = now >= before.until || idle >= IDLE_LOOKS && now >= before.earliest;
    if (!isOver) return next;
    const obstacle = await this.#findObstacle(state);
    if (obstacle !== "") return { ...next, obstacle };
    await this.#kernel.remove(state);
    await this.removeSets();
    if (await this.#kernel.look() !== undefined) return next;
    if (connections === 0) await this.#end();
    logger.info("took over from kube-proxy's ipvs mode: its leftovers are removed", {
      interface: IPVS_INTERFACE,
      virtualServers: state.servers.length,
      connectionsEnded: connections,
    });
    return connections === 0 ? undefined : { ...next, until: now + RESETS, isRemoved: true };
  }

  /** Removes the guard, if nft could create it. */
  async #end(): Promise<undefined> {
    if (this.#guard !== "") await this.options.nft.apply(GUARD_REMOVAL);
    this.#guard = "";
  }

  /** Removes kube-proxy's sets, which rules must no longer use. Never rejects. */
  async removeSets(): Promise<void> {
    const removing = this.#kernel.removeSets();
    const problems = await removing.catch((error: unknown) => [messageOf(error)]);
    for (const problem of problems) this.#warn(`leftovers of kube-proxy's ipvs mode: ${problem}`);
  }

  /** Returns the reason to wait; `""` without a reason. */
  async #findObstacle({ servers }: IpvsState): Promise<string> {
    const canRemove = servers.length === 0 || await this.#kernel.canRemoveServers();
    return canRemove ? await this.options.obstacle() ?? "" : NO_IPVSADM;
  }

  /** Converts a monotonic time to RFC 3339. The wall clock may have been set since then. */
  #wallTime(monotonic: number): string {
    const { clock } = this.options;
    return new Date(clock.now() + monotonic - clock.monotonic()).toISOString();
  }

  #warn(message: string): void {
    if (message === this.#lastWarning) return;
    this.#lastWarning = message;
    this.options.logger.warn(message);
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
      const { nft } = this.options;
      if (guard === this.#guard && (await nft.listTables()).includes(IPVS_TABLE)) return;
      await nft.apply(guard);
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
