/** Reads the number of connections to each Service from the kernel on request. */
import {
  type ConnectionCounters,
  CONNECTIONS_VERSION,
  type ConnectionsReport,
  type FrontendCount,
  type ServiceConnections,
} from "../model/connections.ts";
import type { DesiredServicePort, DesiredState } from "../model/kernel/desired.ts";
import { Turns } from "../model/ports/in_turns.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import { boundedReading } from "../model/values/timing.ts";
import { chunks } from "../model/values/lists.ts";
import { TopK } from "../model/values/bounded.ts";
import { errorText } from "../model/values/text.ts";
import { frontendKey, keyInFamily, splitKey } from "../model/cluster/names.ts";
import { frontendsOf } from "../policy/frontend.ts";

/** A reading is reused for 20 times as long as it took: iptables-legacy copies `nat` under the writers' lock. */
export const TIMES_AS_LONG = 20;

/** The limit of rows in a report: more rows would block the event loop for too long. */
const MOST_REPORTED = 10_000;

/** The shortest and the longest validity of a reading, in milliseconds. */
const SHORTEST = 1_000;
const LONGEST = 300_000;

/** Series that are handled without a break, which takes a millisecond or two. */
const BATCH = 100;

interface ConnectionsOptions {
  readonly node: string;
  /** The source, or the reason why nothing is counted. */
  readonly counters: ConnectionCounters | string;
  readonly services: () => DesiredState["services"];
  readonly clock: Clock;
  readonly logger: Pick<Logger, "debug">;
}

/** Reads connections at a bounded cost, and adds them up by Service. */
export class Connections {
  readonly #byService: ConnectionsByService;
  readonly #read: (valid: number) => Promise<void>;
  /** The duration of the last listing, in milliseconds. */
  #took = 0;
  #hasBegun = false;
  /** The time of the last reading, in monotonic milliseconds. */
  #readAt: number | undefined;
  #report: Pick<ConnectionsReport, "at" | "overSeconds"> = { at: "", overSeconds: 0 };

  constructor(private readonly options: ConnectionsOptions) {
    const { services, clock } = options;
    this.#byService = new ConnectionsByService(services);
    this.#read = boundedReading({ clock, refresh: () => this.#refresh(), known: () => {} });
  }

  get isOn(): boolean {
    return typeof this.options.counters !== "string";
  }

  /** Begins to count when the rules are in the kernel. Ignores the counts of an earlier process. Never rejects. */
  async begin(): Promise<void> {
    this.#hasBegun = true;
    await this.list();
  }

  /** Lists the counts of all Services, and reads them first if they are too old. Never rejects. */
  async list(): Promise<Iterable<ServiceConnections>> {
    if (this.#hasBegun && this.isOn) await this.#read(this.#valid);
    return this.#byService.list();
  }

  async *batches(): AsyncGenerator<readonly ServiceConnections[]> {
    const turns = new Turns(this.options.clock);
    for (const batch of chunks(await this.list(), { weigh: () => 1, most: BATCH })) {
      yield batch;
      await turns.yieldIfDue();
    }
  }

  /** Returns the busiest Services, and the sums of all. Never rejects. */
  async report(most = MOST_REPORTED): Promise<ConnectionsReport> {
    const { node, counters } = this.options;
    const [sent, rejected] = [new Busiest(most), new Busiest(most)];
    for await (const batch of this.batches()) {
      for (const each of batch) (each.reason === undefined ? sent : rejected).add(each);
    }
    return {
      connectionsVersion: CONNECTIONS_VERSION,
      node,
      off: typeof counters === "string" ? counters : "",
      ...this.#report,
      everySeconds: this.#valid / 1000,
      total: sent.total,
      services: sent.first.inOrder(),
      totalRejected: rejected.total,
      rejected: rejected.first.inOrder(),
    };
  }

  /** The validity of the last reading, in milliseconds. */
  get #valid(): number {
    return Math.round(Math.min(Math.max(SHORTEST, TIMES_AS_LONG * this.#took), LONGEST));
  }

  async #refresh(): Promise<void> {
    const { counters, clock, logger } = this.options;
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
    await new Turns(clock).run(this.#byService.taking(counts, seconds));
    this.#readAt = now;
    this.#report = { at: new Date(clock.now()).toISOString(), overSeconds: seconds ?? 0 };
  }
}

class Busiest {
  readonly first: TopK<ServiceConnections>;
  readonly total = { connections: 0, perSecond: 0 };

  constructor(most: number) {
    this.first = new TopK(Math.min(most, MOST_REPORTED), busiestFirst);
  }

  add(each: ServiceConnections): void {
    this.first.add(each);
    this.total.connections += each.connections;
    this.total.perSecond += each.perSecond;
  }
}

function busiestFirst(a: ServiceConnections, b: ServiceConnections): number {
  return b.perSecond - a.perSecond || b.connections - a.connections ||
    (nameOf(a) < nameOf(b) ? -1 : 1);
}

function nameOf({ namespace, service, ...place }: ServiceConnections): string {
  return `${namespace}/${service} ${seriesKey(place)}`;
}

type Labels = Omit<ServiceConnections, "connections" | "perSecond">;

type SeriesPlace = Pick<Labels, "port" | "protocol" | "frontend" | "reason">;

interface Series {
  readonly labels: Labels;
  total: number;
  /** New connections since the last reading. */
  fresh: number;
  perSecond: number;
}

/** Sums the connections of each desired service port by kind of frontend. A sum never falls. */
export class ConnectionsByService {
  readonly #series = new Map<string, Map<string, Series>>();
  /** The labels of each Service's frontends, computed once for each state. */
  readonly #frontends = new WeakMap<readonly DesiredServicePort[], ReadonlyMap<string, Labels>>();
  /** The counts of the last reading that are not 0, by `countKey`. */
  #last: ReadonlyMap<string, FrontendCount> = new Map();

  constructor(private readonly services: () => DesiredState["services"]) {}

  /** Adds new connections. @param seconds since the last reading; `undefined`: the counts are of an earlier process */
  *taking(
    counts: Iterable<FrontendCount>,
    seconds: number | undefined,
  ): Generator<undefined, void> {
    const read = new Map<string, FrontendCount>();
    for (const count of counts) {
      yield;
      if (count.connections === 0) continue;
      read.set(countKey(count), count);
      if (seconds !== undefined) this.#add(count, this.#sinceLast(count));
    }
    this.#last = read;
    for (const [service, ofService] of this.#series) {
      yield;
      const there = new Set([...this.#frontendsOf(service).values()].map(seriesKey));
      for (const [key, series] of ofService) {
        const { reason: _, ...frontend } = series.labels;
        if (!there.has(seriesKey(frontend))) ofService.delete(key);
        series.perSecond = seconds === undefined ? 0 : series.fresh / seconds;
        series.fresh = 0;
      }
      if (ofService.size === 0) this.#series.delete(service);
    }
  }

  #sinceLast(count: FrontendCount): number {
    const { service, connections } = count;
    const last = this.#last.get(countKey(count));
    const isSame = last?.service === service && last.connections <= connections;
    return isSame ? connections - last.connections : connections;
  }

  #add({ frontend, service, reason }: FrontendCount, more: number): void {
    const known = more > 0 ? this.#frontendsOf(service).get(frontend) : undefined;
    if (!known) return;
    const labels = reason === undefined ? known : { ...known, reason };
    const ofService = this.#series.get(service) ?? new Map<string, Series>();
    this.#series.set(service, ofService);
    const key = seriesKey(labels);
    const series = ofService.get(key) ?? { labels, total: 0, fresh: 0, perSecond: 0 };
    ofService.set(key, series);
    series.total += more;
    series.fresh += more;
  }

  /** Lists the sums. Another reading can begin during the listing. */
  *list(): Iterable<ServiceConnections> {
    for (const ofService of [...this.#series.values()]) {
      for (const { labels, total, perSecond } of ofService.values()) {
        yield { ...labels, connections: total, perSecond };
      }
    }
  }

  #frontendsOf(service: string): ReadonlyMap<string, Labels> {
    const ports = this.services().get(service) ?? [];
    const frontends = this.#frontends.get(ports) ?? frontendLabels(service, ports);
    this.#frontends.set(ports, frontends);
    return frontends;
  }
}

function frontendLabels(
  key: string,
  ports: readonly DesiredServicePort[],
): ReadonlyMap<string, Labels> {
  const { namespace, name: service } = splitKey(key);
  return new Map(ports.flatMap((port) => {
    const { family, protocol } = port;
    return frontendsOf(port).map(({ type, address, port: number }) =>
      [
        keyInFamily(family, frontendKey({ address, protocol, port: number })),
        { namespace, service, port: port.port, protocol, frontend: type },
      ] as const
    );
  }));
}

function seriesKey({ port, protocol, frontend, reason }: SeriesPlace): string {
  return `${port} ${protocol} ${frontend} ${reason ?? ""}`;
}

function countKey({ frontend, reason }: FrontendCount): string {
  return `${frontend} ${reason ?? ""}`;
}
