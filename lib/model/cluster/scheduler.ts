/** Declares the schedulers, which spread new connections of a service port over its endpoints. */

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

/** A scheduler that needs more than the rules that all service ports share. */
export type Scheduler =
  | { readonly type: "round-robin" }
  | {
    readonly type: "consistent-hash";
    readonly hash: HashSource;
    /** Slots of the lookup table, a prime. */
    readonly tableSize: number;
  };

export interface SchedulerDefaults {
  readonly scheduler: SchedulerName;
  readonly hash: HashSource;
  readonly hashTableSize: number;
}

/** Returns the scheduler of a Service. `undefined` is random choice. */
export function schedulerOf(
  asked: AskedScheduler | undefined,
  defaults: SchedulerDefaults,
): Scheduler | undefined {
  const type = asked?.name || defaults.scheduler;
  if (type !== "consistent-hash") return type === "random" ? undefined : { type };
  return { type, hash: asked?.hash || defaults.hash, tableSize: defaults.hashTableSize };
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

/** Primes, each about twice the previous prime. */
const PRIMES = [2, 5, 11, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521];

/** Returns the slots of a service port. A lookup table has the configured number, or enough for each endpoint. */
export function slotsFor(endpoints: number, scheduler: Scheduler | undefined): number {
  if (scheduler?.type !== "consistent-hash" || endpoints === 0) return endpoints;
  if (endpoints <= scheduler.tableSize) return scheduler.tableSize;
  return PRIMES.find((prime) => prime >= endpoints) ?? PRIMES.at(-1) ?? endpoints;
}
