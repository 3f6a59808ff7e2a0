/**
 * Deletes stale UDP entries from the kernel's connection tracking after each sync.
 *
 * @module
 */
import { append } from "../model/values/lists.ts";
import { FAMILIES, type Family } from "../model/values/address.ts";
import type { DesiredState, StateChange } from "../model/kernel/desired.ts";
import { Turns } from "../model/ports/in_turns.ts";
import {
  type Clock,
  type Logger,
  type ProcessRunner,
  ProgramMissingError,
} from "../model/ports/ports.ts";
import { type FrontendsByFamily, isEmpty } from "./frontends.ts";
import {
  allSuspects,
  gatheringNodeFacts,
  type NodeFacts,
  staleEntries,
  stillSuspect,
  type Suspects,
  suspectsOf,
} from "./stale.ts";
import { ConntrackError, ConntrackTool, type Deletion, deletionsOf, listFilters } from "./tool.ts";

/** What the cleaner works with. */
export interface ConntrackCleanerOptions {
  readonly runner: ProcessRunner;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The addresses of all network interfaces of the node, canonical. */
  readonly localAddresses: () => Iterable<string>;
}

/** What a clean-up did in one family. */
export interface FamilyCleaned {
  /** Entries deleted. */
  readonly deleted: number;
  readonly seconds: number;
}

/** Deletions that are handed over together. Each walks all of the kernel's table. */
const BATCH = 32;
/** Milliseconds after which a clean-up stops and leaves the rest for later. */
const BUDGET = 2_000;
/** Milliseconds after a failure, or a clean-up that was cut short, in which nothing is tried. */
const PAUSE = 10_000;
/** So many frontends are remembered that could not be cleaned after they went. */
const MAX_PENDING = 4_096;

/**
 * Finds and deletes stale UDP entries (see `staleEntries`).
 *
 * `reconcile` is to be called after each sync that the kernel took, once the call before is over.
 * The state may move on while `conntrack` runs: each change of that time is to be told by
 * `remembering`, so that entries are judged by the state that holds when they have been listed. A `conntrack` that fails
 * makes it warn, not throw: UDP clients that hang are a lesser evil than rules that are not
 * written. What it could not do, a later call does.
 */
export class ConntrackCleaner {
  readonly #options: ConntrackCleanerOptions;
  readonly #tool: ConntrackTool;
  #isMissing = false;
  /** Set while work is left: frontends that went and were not cleaned. The state knows the others. */
  #pending: readonly FrontendsByFamily[] | undefined;
  /** Counts the calls of `remembering`. */
  #remembered = 0;
  #notBefore = -Infinity;
  #lastWarning = "";

  /** @param options the tool's runner, the clock, the log, the node's addresses */
  constructor(options: ConntrackCleanerOptions) {
    this.#options = options;
    this.#tool = new ConntrackTool(options.runner);
  }

  /** Whether a clean-up failed or was cut short, so that another call without a change is worth it. */
  get unfinished(): boolean {
    return this.#pending !== undefined;
  }

  /**
   * Deletes what a sync has made stale.
   *
   * @param change what the sync changed; `undefined`: not known, everything is looked at
   * @param state the state that the kernel has now
   * @returns what was done, by family; those in which nothing could be stale are left out
   */
  async reconcile(
    change: StateChange | undefined,
    state: DesiredState,
  ): Promise<ReadonlyMap<Family, FamilyCleaned>> {
    const families = new Map<Family, FamilyCleaned>();
    if (this.#isMissing) return families;
    const remembered = this.#remembered;
    const suspects = await this.#inTurns(this.#suspecting(change, state));
    if (suspects) {
      const deadline = this.#now() + BUDGET;
      try {
        await this.#cleanAll(suspects, { state, remembered, deadline, families });
        this.#lastWarning = "";
      } catch (error) {
        this.#fail(error, suspects);
      }
    }
    return families;
  }

  /**
   * Takes note of a change that the kernel did not take, or took while `reconcile` ran, so that the
   * next `reconcile` finds what it has made stale.
   *
   * @param change what that sync changed, or would have changed
   * @param state the state that it led to
   * @yields where other work can be done
   */
  *remembering(change: StateChange, state: DesiredState): Generator<undefined, void> {
    this.#remembered++;
    if (this.#isMissing) return;
    const { served, gone } = yield* suspectsOf(change, state);
    if (!isEmpty(served) || !isEmpty(gone)) this.#keepPending(gone);
  }

  /** What to look at now; `undefined`: nothing. */
  *#suspecting(
    change: StateChange | undefined,
    state: DesiredState,
  ): Generator<undefined, Suspects | undefined> {
    const step = change && (yield* suspectsOf(change, state));
    if (step && !this.#pending) {
      return isEmpty(step.served) && isEmpty(step.gone) ? undefined : step;
    }
    if (step) this.#keepPending(step.gone);
    if (this.#now() < this.#notBefore) {
      this.#pending ??= [];
      return undefined;
    }
    const pending = this.#pending;
    this.#pending = undefined;
    return yield* allSuspects(state, pending);
  }

  async #cleanAll(
    suspects: Suspects,
    { state, remembered, deadline, families }: {
      readonly state: DesiredState;
      readonly remembered: number;
      readonly deadline: number;
      readonly families: Map<Family, FamilyCleaned>;
    },
  ): Promise<void> {
    const { localAddresses, logger } = this.#options;
    const facts = await this.#inTurns(gatheringNodeFacts(state, { suspects, localAddresses }));
    for (const family of FAMILIES) {
      if (suspects.served[family].size + suspects.gone[family].size === 0) continue;
      const started = this.#now();
      const deletions = await this.#find(family, { suspects, facts, state, remembered });
      const { deleted, left } = await this.#delete(deletions, deadline);
      const seconds = (this.#now() - started) / 1000;
      families.set(family, { deleted, seconds });
      if (left > 0) {
        this.#postpone(
          suspects,
          `stale IPv${family} UDP connections take long to delete, ${left} deletions are left`,
        );
      }
      if (deleted > 0) {
        logger.debug(2, "stale UDP connections deleted", { family, deleted, seconds });
      }
    }
  }

  async #find(
    family: Family,
    { suspects, facts, state, remembered }: {
      readonly suspects: Suspects;
      readonly facts: NodeFacts;
      readonly state: DesiredState;
      /** How many changes had been remembered when the suspects were looked for. */
      readonly remembered: number;
    },
  ): Promise<Deletion[]> {
    const deletions: Deletion[] = [];
    for (const filter of listFilters([suspects.served[family], suspects.gone[family]])) {
      const entries = await this.#tool.list(family, filter);
      const now = remembered === this.#remembered ? suspects : stillSuspect(suspects, state);
      append(deletions, deletionsOf(staleEntries(entries, { suspects: now, facts })));
    }
    return deletions;
  }

  async #delete(
    deletions: readonly Deletion[],
    deadline: number,
  ): Promise<{ readonly deleted: number; readonly left: number }> {
    let deleted = 0;
    let done = 0;
    // The first batch goes however long the listing took, so that something is achieved each time.
    while (done < deletions.length && (done === 0 || this.#now() < deadline)) {
      deleted += await this.#tool.delete(deletions.slice(done, done + BATCH));
      done += BATCH;
    }
    return { deleted, left: Math.max(0, deletions.length - done) };
  }

  #fail(error: unknown, suspects: Suspects): void {
    const { logger } = this.#options;
    if (error instanceof ProgramMissingError) {
      this.#isMissing = true;
      logger.warn(
        "stale UDP connections are not deleted, clients of changed Services may hang: " +
          "the program conntrack cannot be run; install conntrack-tools and restart",
      );
      return;
    }
    if (!(error instanceof ConntrackError)) throw error;
    this.#postpone(suspects, error.message);
  }

  #postpone({ gone }: Suspects, reason: string): void {
    const { logger } = this.#options;
    this.#keepPending(gone);
    this.#notBefore = this.#now() + PAUSE;
    if (reason !== this.#lastWarning) logger.warn(`${reason}; trying again later`);
    this.#lastWarning = reason;
  }

  #keepPending(gone: FrontendsByFamily): void {
    const pending = [...this.#pending ?? [], ...isEmpty(gone) ? [] : [gone]];
    const size = pending.reduce((sum, each) => sum + each[4].size + each[6].size, 0);
    this.#pending = size > MAX_PENDING ? [] : pending;
  }

  #inTurns<T>(work: Generator<undefined, T>): Promise<T> {
    return new Turns(this.#options.clock).run(work);
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }
}
