/**
 * Deletes stale UDP entries from the kernel's connection tracking after syncs.
 *
 * @module
 */
import {
  changesFixedRules,
  type DesiredServicePort,
  type DesiredState,
  type ServiceChange,
  type StateChange,
} from "../model/kernel/desired.ts";
import { Turns } from "../model/ports/in_turns.ts";
import {
  type Clock,
  type Logger,
  type ProcessRunner,
  ProgramMissingError,
} from "../model/ports/ports.ts";
import { FAMILIES, type Family } from "../model/values/address.ts";
import type { ConntrackEntry } from "./parse.ts";
import {
  addSuspects,
  concernsUdp,
  gatheringPresent,
  haveNodePort,
  MOST_SUSPECTS,
  staleEntries,
  type Suspects,
  suspectsOf,
} from "./stale.ts";
import { ConntrackError, ConntrackTool, type Deletion, deletionsOf, listFilters } from "./tool.ts";

/** Lists what the cleaner works with. */
export interface ConntrackCleanerOptions {
  /** The present desired state. */
  readonly state: DesiredState;
  readonly runtime: {
    readonly runner: ProcessRunner;
    readonly clock: Clock;
    /** The addresses of all network interfaces of the node, canonical. */
    addresses(): readonly string[];
  };
  readonly metrics: {
    /** A clean-up of one family is over. */
    conntrackReconciled(family: Family, result: { deleted: number; seconds: number }): void;
  };
  readonly logger: Logger;
  /** Ends clean-ups. */
  readonly signal: AbortSignal;
}

/** Services that are looked at in one turn. */
const SERVICES = 100;
/** Deletions that are handed over together. Each walks all of the kernel's table. */
const DELETIONS = 32;
/** Milliseconds after which a clean-up stops and leaves the rest for later. */
const BUDGET = 2_000;
/** Milliseconds between two clean-ups. */
const PAUSE = 1_000;
/** The same after one that failed or was cut short. */
const RETRY_PAUSE = 10_000;

/** Frontends of one family whose flows may be stale, and the Services of both families that have or had them. */
interface Suspected {
  readonly suspects: Suspects;
  readonly services: ReadonlySet<string>;
}

/**
 * Finds and deletes stale UDP entries (see `staleEntries`) beside the next syncs: a conntrack that hangs delays no
 * rule. A `conntrack` that fails causes a warning, and a later clean-up does what it could not do.
 */
export class ConntrackCleaner {
  readonly #options: ConntrackCleanerOptions;
  readonly #tool: ConntrackTool;
  #suspects = noSuspects();
  /** The Services that have or had a suspect, as `namespace/name`. */
  #services = new Set<string>();
  /** The kernel has what the last sync wanted. */
  #isSynced = false;
  #isRunning = false;
  #isMissing = false;
  #lastWarning = "";

  /** @param options what it works with */
  constructor(options: ConntrackCleanerOptions) {
    this.#options = options;
    this.#tool = new ConntrackTool(options.runtime.runner);
  }

  /**
   * Notes what a sync may have made stale, and starts a clean-up if the kernel took the sync. Does not wait for it.
   *
   * @param sync `done`: the kernel has the change; `full`: the kernel may have held something else before
   * @yields where other work can be done
   */
  *following(
    sync: { readonly change: StateChange; readonly done: boolean; readonly full: boolean },
  ): Generator<undefined, void> {
    if (this.#isMissing) return;
    this.#isSynced = false;
    const { change, done, full } = sync;
    // Other addresses of the node may take node ports where the fixed rules change.
    const isAll = full || changesFixedRules(change);
    const present = isAll ? this.#options.state.services : [];
    let count = 0;
    for (const services of [change.services, addedBy(present)]) {
      for (const [service, each] of services) {
        if (++count % SERVICES === 0) yield;
        if (!concernsUdp(each)) continue;
        if (this.#services.size < MOST_SUSPECTS) this.#services.add(service);
        for (const family of FAMILIES) {
          addSuspects(this.#suspects[family], suspectsOf(each, family));
        }
      }
    }
    this.#isSynced = done;
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    const { runtime: { clock }, signal } = this.#options;
    this.#isRunning = true;
    while (this.#isSynced && !signal.aborted && FAMILIES.some((f) => this.#suspects[f].size > 0)) {
      const isDone = await this.#clean();
      await clock.sleep(isDone ? PAUSE : RETRY_PAUSE, signal);
    }
    this.#isRunning = false;
  }

  /** Cleans both families. @returns whether nothing is left */
  async #clean(): Promise<boolean> {
    const [suspects, services] = [this.#suspects, this.#services];
    this.#suspects = noSuspects();
    this.#services = new Set();
    const deadline = this.#now() + BUDGET;
    let isDone = true;
    for (const family of FAMILIES) {
      try {
        await this.#cleanFamily(family, { suspects: suspects[family], services, deadline });
      } catch (error) {
        if (error instanceof ProgramMissingError) return this.#giveUp();
        if (!(error instanceof ConntrackError)) throw error;
        this.#warn(`${error.message}; trying again later`);
        addSuspects(this.#suspects[family], suspects[family]);
        this.#services = this.#services.union(services);
        isDone = false;
      }
    }
    if (isDone) this.#lastWarning = "";
    return isDone;
  }

  async #cleanFamily(
    family: Family,
    { deadline, ...suspected }: Suspected & { readonly deadline: number },
  ): Promise<void> {
    if (suspected.suspects.size === 0) return;
    const { metrics, logger } = this.#options;
    const started = this.#now();
    const deletions = await this.#find(family, suspected);
    let [deleted, done] = [0, 0];
    // The first batch goes however long the listing took, so that something is achieved each time.
    while (done < deletions.length && (done === 0 || this.#now() < deadline)) {
      deleted += await this.#tool.delete(deletions.slice(done, done + DELETIONS));
      done += DELETIONS;
    }
    const seconds = (this.#now() - started) / 1000;
    metrics.conntrackReconciled(family, { deleted, seconds });
    if (deleted > 0) {
      logger.debug(2, "stale UDP connections deleted", { family, deleted, seconds });
    }
    const left = deletions.length - done;
    if (left <= 0) return;
    throw new ConntrackError(
      `stale IPv${family} UDP connections take long to delete, ${left} deletions are left`,
    );
  }

  async #find(family: Family, { suspects, services }: Suspected): Promise<Deletion[]> {
    const { state, runtime } = this.#options;
    const listings: Iterable<ConntrackEntry>[] = [];
    for (const filter of listFilters(suspects)) {
      listings.push(await this.#tool.list(family, filter));
    }
    // Gathered after the listing: a flow may lead to an endpoint that came meanwhile.
    const isAll = services.size >= MOST_SUSPECTS || haveNodePort(suspects);
    const compared = isAll
      ? state.services.values()
      : services.values().map((service) => state.services.get(service) ?? []);
    const localAddresses = new Set(runtime.addresses());
    const gathering = gatheringPresent(compared, { family, node: state.node, localAddresses });
    const present = await new Turns(runtime.clock).run(gathering);
    return deletionsOf(listings.flatMap((each) => [...staleEntries(each, { suspects, present })]));
  }

  #giveUp(): true {
    this.#isMissing = true;
    this.#suspects = noSuspects();
    this.#warn(
      "stale UDP connections are not deleted, clients of changed Services may hang: " +
        "the program conntrack cannot be run; install conntrack-tools and restart",
    );
    return true;
  }

  #warn(message: string): void {
    if (message !== this.#lastWarning) this.#options.logger.warn(message);
    this.#lastWarning = message;
  }

  #now(): number {
    return this.#options.runtime.clock.monotonic();
  }
}

/** Gives each Service as if it were new: all of its flows are looked at. */
function* addedBy(
  services: Iterable<readonly [string, readonly DesiredServicePort[]]>,
): Generator<readonly [string, ServiceChange]> {
  for (const [service, after] of services) yield [service, { before: [], after }];
}

function noSuspects(): Record<Family, Suspects> {
  return { 4: new Map(), 6: new Map() };
}
