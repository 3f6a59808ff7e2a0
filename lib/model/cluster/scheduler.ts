/**
 * How a service port spreads new connections over its endpoints.
 *
 * @module
 */

/** The schedulers, by the names that settings and annotations have for them. */
export const SCHEDULERS = ["random", "round-robin", "consistent-hash"] as const;

/** `random`: any endpoint; `round-robin`: in turn; `consistent-hash`: by where the client is. */
export type SchedulerName = (typeof SCHEDULERS)[number];

/** What consistent hashing may go by. */
export const HASH_SOURCES = ["source", "source-and-port"] as const;

/** `source`: the client's address; `source-and-port`: its address and port. */
export type HashSource = (typeof HASH_SOURCES)[number];

/** What a Service asks for; `""`: what the configuration says. */
export interface AskedScheduler {
  readonly name: SchedulerName | "";
  readonly hash: HashSource | "";
}

/** What a Service without annotations asks for. */
export const ANY_SCHEDULER: AskedScheduler = { name: "", hash: "" };

/** A scheduler that needs more than the rules that all service ports share. */
export type Scheduler =
  | { readonly type: "round-robin" }
  | {
    readonly type: "consistent-hash";
    readonly hash: HashSource;
    /** Slots of the lookup table, a prime. */
    readonly tableSize: number;
  };

/** What a scheduler needs of the kernel beyond what random choice needs. */
interface SchedulerNeeds {
  /** It hashes where the client is. */
  readonly hash: boolean;
  /** Each of its service ports has chains of its own. */
  readonly ownChains: boolean;
}

/** A scheduler without an entry does not compile. */
const NEEDS: Readonly<Record<Scheduler["type"], SchedulerNeeds>> = {
  "round-robin": { hash: false, ownChains: true },
  "consistent-hash": { hash: true, ownChains: false },
};

/** What a scheduler needs; `undefined`: random. */
export function needsOf(scheduler: Scheduler | undefined): SchedulerNeeds {
  return scheduler ? NEEDS[scheduler.type] : { hash: false, ownChains: false };
}

/** What holds where a Service does not say. */
export interface SchedulerDefaults {
  readonly scheduler: SchedulerName;
  readonly hash: HashSource;
  readonly hashTableSize: number;
}

/** A name without an entry does not compile. */
const SCHEDULER_OF: Readonly<
  Record<
    SchedulerName,
    (asked: AskedScheduler, defaults: SchedulerDefaults) => Scheduler | undefined
  >
> = {
  random: () => undefined,
  "round-robin": () => ({ type: "round-robin" }),
  "consistent-hash": ({ hash }, defaults) => ({
    type: "consistent-hash",
    hash: hash || defaults.hash,
    tableSize: defaults.hashTableSize,
  }),
};

/** The scheduler of a Service; `undefined`: random. */
export function schedulerOf(
  asked: AskedScheduler,
  defaults: SchedulerDefaults,
): Scheduler | undefined {
  return SCHEDULER_OF[asked.name || defaults.scheduler](asked, defaults);
}

/** How endpoints are picked, as a phrase. */
export function describeScheduler(scheduler: Scheduler): string {
  switch (scheduler.type) {
    case "round-robin":
      return "endpoints in turn (round-robin)";
    case "consistent-hash": {
      const source = scheduler.hash === "source" ? "address" : "address and port";
      return `endpoints by the source's ${source} (consistent-hash)`;
    }
  }
}

/** Each has about twice as many slots as the one before. */
const PRIMES = [2, 5, 11, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521];

/** The slots of a lookup table: as configured, or so many that each endpoint has one. */
function tableSizeFor(endpoints: number, configured: number): number {
  if (endpoints <= configured) return configured;
  return PRIMES.find((prime) => prime >= endpoints) ?? PRIMES.at(-1) ?? configured;
}

/** How many slots the kernel holds for so many endpoints. */
export function slotsFor(endpoints: number, scheduler: Scheduler | undefined): number {
  switch (scheduler?.type) {
    case undefined:
    case "round-robin":
      return endpoints;
    case "consistent-hash":
      return endpoints === 0 ? 0 : tableSizeFor(endpoints, scheduler.tableSize);
  }
}
