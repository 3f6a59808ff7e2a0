/** The schedulers: how a service port spreads new connections over its endpoints. */

export const SCHEDULERS = ["random", "round-robin", "consistent-hash"] as const;

/** `random`: any endpoint. `round-robin`: in turn. `consistent-hash`: by the client's address. */
export type SchedulerName = (typeof SCHEDULERS)[number];

export const HASH_SOURCES = ["source", "source-and-port"] as const;

/** `source`: the client's address; `source-and-port`: its address and port. */
export type HashSource = (typeof HASH_SOURCES)[number];

/** The scheduler that a Service asks for; `""` is the configured default. */
export interface AskedScheduler {
  readonly name: SchedulerName | "";
  readonly hash: HashSource | "";
}

/** The request of a Service without annotations. */
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

interface SchedulerNeeds {
  /** True if it hashes the client's address. */
  readonly hash: boolean;
  /** True if each of its service ports has its own chains. */
  readonly ownChains: boolean;
}

/** A scheduler without an entry does not compile. */
const NEEDS: Readonly<Record<Scheduler["type"], SchedulerNeeds>> = {
  "round-robin": { hash: false, ownChains: true },
  "consistent-hash": { hash: true, ownChains: false },
};

/** Returns a scheduler's needs. `undefined` is random choice. */
export function needsOf(scheduler: Scheduler | undefined): SchedulerNeeds {
  return scheduler ? NEEDS[scheduler.type] : { hash: false, ownChains: false };
}

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

export function schedulerOf(
  asked: AskedScheduler,
  defaults: SchedulerDefaults,
): Scheduler | undefined {
  return SCHEDULER_OF[asked.name || defaults.scheduler](asked, defaults);
}

/** Describes in a phrase how a scheduler picks endpoints. */
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

/** Primes, each about twice the one before. */
const PRIMES = [2, 5, 11, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521];

/** Returns the slots of a lookup table: the configured number, or enough for each endpoint. */
function tableSizeFor(endpoints: number, configured: number): number {
  if (endpoints <= configured) return configured;
  return PRIMES.find((prime) => prime >= endpoints) ?? PRIMES.at(-1) ?? configured;
}

/** Returns the number of slots that a service port needs in the kernel. */
export function slotsFor(endpoints: number, scheduler: Scheduler | undefined): number {
  switch (scheduler?.type) {
    case undefined:
    case "round-robin":
      return endpoints;
    case "consistent-hash":
      return endpoints === 0 ? 0 : tableSizeFor(endpoints, scheduler.tableSize);
  }
}
