/**
 * The connections that came to each Service: read from the kernel when they are asked for.
 *
 * @module
 */
import {
  type ConnectionCounters,
  CONNECTIONS_VERSION,
  type ConnectionsReport,
  type FrontendCount,
  type ServiceConnections,
} from "../../model/connections.ts";
import type { DesiredState } from "../../model/kernel/desired.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { boundedReading, READING_VALID } from "../../model/values/timing.ts";
import { TopK } from "../../model/values/bounded.ts";
import { errorText } from "../../model/values/text.ts";
import { ConnectionsByService } from "./services.ts";

/** Frontends that a scrape reads every five seconds; where there are more, it reads less often. */
export const MOST_FRONTENDS = 20_000;

/**
 * How long a reading holds, by the time that it took: iptables-legacy copies all of the nat table for one, under the
 * lock that its writers take, too.
 */
export const TIMES_AS_LONG: Readonly<Record<Interest, number>> = { scrape: 50, live: 10 };

/** Service ports by kind of frontend that a report has at most; more would take the event loop for too long. */
const MOST_REPORTED = 10_000;

/** Milliseconds that a reading which hung for long holds. */
const LONGEST = 300_000;

/** Milliseconds between two readings, at least, for those who watch. */
const LIVE = 1_000;

/** Series that are handed on at once: a millisecond or two. */
const BATCH = 100;

/** What counts, and where it is read. */
export interface ConnectionsOptions {
  readonly node: string;
  /** Why nothing is counted; or where it is read. */
  readonly counters: ConnectionCounters | string;
  /** The present desired state. */
  readonly services: () => DesiredState["services"];
  readonly clock: Clock;
  readonly logger: Pick<Logger, "debug">;
}

/** Who asks: a scrape can wait for longer than a person who looks on. */
export type Interest = "scrape" | "live";

/** Reads connections at a bounded cost, and adds them up by Service. */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #byService: ConnectionsByService;
  readonly #read: (valid: number) => Promise<void>;
  /** Frontends of the last listing. */
  #size = 0;
  /** Milliseconds that the last listing took, or failed to. */
  #took = 0;
  #hasBegun = false;
  /** When the last reading ended, of the monotonic clock. */
  #readAt: number | undefined;
  #report: Pick<ConnectionsReport, "at" | "overSeconds"> = { at: "", overSeconds: 0 };

  /** @param options what to read */
  constructor(options: ConnectionsOptions) {
    const { services, clock } = options;
    this.#options = options;
    this.#byService = new ConnectionsByService(services);
    this.#read = boundedReading({
      clock,
      refresh: () => this.#refresh(),
      known: () => {},
    });
  }

  /** Whether connections are counted at all. */
  get isOn(): boolean {
    return typeof this.#options.counters !== "string";
  }

  /**
   * Begins to count, once the rules are in the kernel: what was counted before this process is not told again, or
   * a restart would count it twice. Rules that this process wrote are not read for that. Never rejects.
   */
  async begin(): Promise<void> {
    this.#hasBegun = true;
    await this.list("live");
  }

  /**
   * What has come to each Service, in any order: after a reading, or without one where the last one is new enough.
   * Never rejects.
   */
  async list(interest: Interest): Promise<Iterable<ServiceConnections>> {
    if (this.#hasBegun && this.isOn) await this.#read(this.#validFor(interest));
    return this.#byService.list();
  }

  /** The same in batches, with pauses between. */
  async *batches(interest: Interest): AsyncGenerator<readonly ServiceConnections[]> {
    const all = await this.list(interest);
    const turns = new Turns(this.#options.clock);
    let batch: ServiceConnections[] = [];
    for (const each of all) {
      batch.push(each);
      if (batch.length < BATCH) continue;
      yield batch;
      batch = [];
      await turns.giveWay();
    }
    yield batch;
  }

  /**
   * The busiest, and the sums of all. Never rejects.
   *
   * @param most how many are wanted, up to `MOST_REPORTED`
   */
  async report(interest: Interest, most = MOST_REPORTED): Promise<ConnectionsReport> {
    const { node, counters, clock } = this.#options;
    const all = await this.list(interest);
    const turns = new Turns(clock);
    const busiest = new TopK(Math.min(most, MOST_REPORTED), busiestFirst);
    let [connections, perSecond, seen] = [0, 0, 0];
    for (const each of all) {
      busiest.add(each);
      connections += each.connections;
      perSecond += each.perSecond;
      if (++seen % BATCH === 0) await turns.giveWay();
    }
    return {
      connectionsVersion: CONNECTIONS_VERSION,
      node,
      off: typeof counters === "string" ? counters : "",
      ...this.#report,
      everySeconds: this.#validFor(interest) / 1000,
      total: { connections, perSecond },
      services: busiest.inOrder(),
    };
  }

  #validFor(interest: Interest): number {
    const bySize = READING_VALID * (this.#size / MOST_FRONTENDS);
    const least = interest === "scrape" ? READING_VALID : LIVE;
    const byTime = Math.min(TIMES_AS_LONG[interest] * this.#took, LONGEST);
    return Math.round(Math.max(least, bySize, byTime));
  }

  async #refresh(): Promise<void> {
    const { counters, clock, logger } = this.#options;
    if (typeof counters === "string") return;
    const begun = clock.monotonic();
    let counts: Iterable<FrontendCount> = [];
    try {
      if (this.#readAt !== undefined || !counters.areOurs) {
        counts = await counters.read().finally(() => this.#took = clock.monotonic() - begun);
      }
    } catch (error) {
      logger.debug(2, "connections cannot be read now", { error: errorText(error) });
      return;
    }
    const now = clock.monotonic();
    const seconds = this.#readAt === undefined ? undefined : (now - this.#readAt) / 1000;
    this.#size = await new Turns(clock).run(this.#byService.taking(counts, seconds));
    this.#readAt = now;
    this.#report = { at: new Date(clock.now()).toISOString(), overSeconds: seconds ?? 0 };
  }
}

function busiestFirst(a: ServiceConnections, b: ServiceConnections): number {
  return b.perSecond - a.perSecond || b.connections - a.connections ||
    (nameOf(a) < nameOf(b) ? -1 : 1);
}

function nameOf({ namespace, service, port, protocol, frontend }: ServiceConnections): string {
  return `${namespace}/${service} ${port} ${protocol} ${frontend}`;
}
