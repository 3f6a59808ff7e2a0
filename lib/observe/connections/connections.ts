/**
 * The connections that came to each Service: read from the kernel when they are asked for.
 *
 * @module
 */
import {
  CONNECTIONS_VERSION,
  type ConnectionsReport,
  type ServiceConnections,
} from "../../model/connections.ts";
import type { ConnectionCounters } from "../../model/kernel/connections.ts";
import type { DesiredState } from "../../model/kernel/desired.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { boundedReading, READING_VALID } from "../../model/values/bounded_reading.ts";
import { errorText } from "../../model/values/text.ts";
import { ConnectionsByService } from "./services.ts";
import { ConnectionSums } from "./sums.ts";

/** Frontends that a scrape reads every five seconds; where there are more, it reads less often. */
export const MOST_FRONTENDS = 20_000;

/**
 * How long a reading holds, by the time that it took: iptables-legacy copies all of the nat table for one, under the
 * lock that its writers take, too.
 */
export const TIMES_AS_LONG: Readonly<Record<Interest, number>> = { scrape: 50, live: 10 };

/** Milliseconds that a reading which hung for long holds. */
const LONGEST = 300_000;

/** Milliseconds between two readings, at least, for those who watch. */
const LIVE = 1_000;

/** Counts that are taken at once: a millisecond or two. */
const BATCH = 1_000;

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
  readonly #sums: ConnectionSums;
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
    const { counters, services, clock } = options;
    this.#options = options;
    this.#byService = new ConnectionsByService(services);
    const tellsGone = typeof counters !== "string" && counters.tellsGone;
    this.#sums = new ConnectionSums((frontend, more) => this.#byService.add(frontend, more), {
      tellsGone,
    });
    if (typeof counters !== "string") counters.onGone((last) => this.#sums.gone(last));
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
    await this.report("live");
  }

  /**
   * What is known after a reading, or without one where the last one is new enough. Never rejects.
   *
   * @param most how many of the busiest are wanted; all where not given
   */
  async report(interest: Interest, most?: number): Promise<ConnectionsReport> {
    const { node, counters } = this.#options;
    const valid = this.#validFor(interest);
    if (this.#hasBegun && typeof counters !== "string") await this.#read(valid);
    const services = [...this.#byService.list()].sort(busiestFirst);
    return {
      connectionsVersion: CONNECTIONS_VERSION,
      node,
      off: typeof counters === "string" ? counters : "",
      ...this.#report,
      everySeconds: valid / 1000,
      ...(most === undefined ? {} : { total: totalOf(services) }),
      services: services.slice(0, most),
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
    this.#sums.begin();
    const begun = clock.monotonic();
    const turns = new Turns(clock);
    try {
      const isKnown = this.#readAt === undefined && counters.areOurs;
      const counts = isKnown
        ? []
        : await counters.read().finally(() => this.#took = clock.monotonic() - begun);
      let size = 0;
      for (const count of counts) {
        this.#sums.seen(count);
        if (++size % BATCH === 0) await turns.giveWay();
      }
      this.#size = size;
    } catch (error) {
      this.#sums.fail();
      logger.debug(2, "connections cannot be read now", { error: errorText(error) });
      return;
    }
    await turns.run(this.#sums.end());
    const now = clock.monotonic();
    const seconds = this.#readAt === undefined ? undefined : (now - this.#readAt) / 1000;
    this.#byService.finishReading(seconds);
    this.#readAt = now;
    this.#report = { at: new Date(clock.now()).toISOString(), overSeconds: seconds ?? 0 };
  }
}

function totalOf(
  services: readonly ServiceConnections[],
): Exclude<ConnectionsReport["total"], undefined> {
  let [connections, perSecond] = [0, 0];
  for (const each of services) {
    connections += each.connections;
    perSecond += each.perSecond;
  }
  return { connections, perSecond };
}

function busiestFirst(a: ServiceConnections, b: ServiceConnections): number {
  return b.perSecond - a.perSecond || b.connections - a.connections ||
    (nameOf(a) < nameOf(b) ? -1 : 1);
}

function nameOf({ namespace, service, port, protocol, frontend }: ServiceConnections): string {
  return `${namespace}/${service} ${port} ${protocol} ${frontend}`;
}
