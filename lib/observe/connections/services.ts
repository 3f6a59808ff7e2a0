/**
 * Sums the connections of each service port by kind of frontend, from the counters of the kernel. Only frontends of
 * the desired state count; the sums of a Service go with the reading after its deletion.
 *
 * @module
 */
import { frontendKey, keyInFamily, splitKey } from "../../model/cluster/names.ts";
import type { FrontendCount, ServiceConnections } from "../../model/connections.ts";
import type { DesiredServicePort, DesiredState } from "../../model/kernel/desired.ts";
import { frontendsOf } from "../../policy/frontend.ts";

type Labels = Omit<ServiceConnections, "connections" | "perSecond">;

/** One service port by one kind of frontend. */
interface Series {
  readonly labels: Labels;
  total: number;
  /** Those since the last reading. */
  fresh: number;
  perSecond: number;
}

/** Counts that are taken in at once. */
const BATCH = 100;

/** Sums by service port. A sum never falls. */
export class ConnectionsByService {
  readonly #services: () => DesiredState["services"];
  /** By Service, by the key of its series. */
  readonly #series = new Map<string, Map<string, Series>>();
  /** What the frontends of a Service's ports stand for, worked out once for each state of theirs. */
  readonly #frontends = new WeakMap<readonly DesiredServicePort[], ReadonlyMap<string, Labels>>();
  /** The counts of the last reading, without those of 0: most frontends of a node never meet a connection. */
  #last: ReadonlyMap<string, FrontendCount> = new Map();

  /** @param services the present desired state */
  constructor(services: () => DesiredState["services"]) {
    this.#services = services;
  }

  /**
   * Takes a reading in. Adds the difference to the last one, or all of a counter that was reset: a change of the
   * frontend writes its element again, and what came between the last reading and that is lost.
   *
   * @param counts the counts of all frontends
   * @param seconds since the last reading; `undefined`: this is the first one, and its counts are of an older process
   * @returns how many frontends there are
   * @yields where other work can be done
   */
  *taking(
    counts: Iterable<FrontendCount>,
    seconds: number | undefined,
  ): Generator<undefined, number> {
    const read = new Map<string, FrontendCount>();
    let size = 0;
    for (const count of counts) {
      if (++size % BATCH === 0) yield;
      if (count.connections === 0) continue;
      read.set(count.frontend, count);
      if (seconds !== undefined) this.#add(count, this.#sinceLast(count));
    }
    this.#last = read;
    yield* this.#forgetting();
    for (const ofService of this.#series.values()) {
      yield;
      for (const series of ofService.values()) {
        series.perSecond = seconds === undefined ? 0 : series.fresh / seconds;
        series.fresh = 0;
      }
    }
    return size;
  }

  #sinceLast({ frontend, service, connections }: FrontendCount): number {
    const last = this.#last.get(frontend);
    const isSame = last?.service === service && last.connections <= connections;
    return isSame ? connections - last.connections : connections;
  }

  /** Adds connections to a frontend, if its Service has it. */
  #add({ frontend, service }: FrontendCount, more: number): void {
    const labels = more > 0 ? this.#frontendsOf(service).get(frontend) : undefined;
    if (!labels) return;
    const ofService = this.#series.get(service) ?? new Map<string, Series>();
    this.#series.set(service, ofService);
    const key = seriesKey(labels);
    const series = ofService.get(key) ?? { labels, total: 0, fresh: 0, perSecond: 0 };
    ofService.set(key, series);
    series.total += more;
    series.fresh += more;
  }

  /** All that had connections, as of the last reading, each once, though another one begins meanwhile. */
  *list(): Iterable<ServiceConnections> {
    for (const ofService of [...this.#series.values()]) {
      for (const { labels, total, perSecond } of ofService.values()) {
        yield { ...labels, connections: total, perSecond };
      }
    }
  }

  /** Drops series of frontends that the desired state does not have any more. */
  *#forgetting(): Generator<undefined, void> {
    for (const [service, ofService] of this.#series) {
      yield;
      const there = new Set([...this.#frontendsOf(service).values()].map(seriesKey));
      for (const key of ofService.keys()) if (!there.has(key)) ofService.delete(key);
      if (ofService.size === 0) this.#series.delete(service);
    }
  }

  #frontendsOf(service: string): ReadonlyMap<string, Labels> {
    const ports = this.#services().get(service);
    if (!ports) return NO_FRONTENDS;
    const known = this.#frontends.get(ports);
    if (known) return known;
    const frontends = frontendLabels(service, ports);
    this.#frontends.set(ports, frontends);
    return frontends;
  }
}

const NO_FRONTENDS: ReadonlyMap<string, Labels> = new Map();

/** By frontend, what its connections are counted under. */
function frontendLabels(
  key: string,
  ports: readonly DesiredServicePort[],
): ReadonlyMap<string, Labels> {
  const { namespace, name: service } = splitKey(key);
  const found = new Map<string, Labels>();
  for (const port of ports) {
    const { family, protocol } = port;
    for (const { type, address, port: number } of frontendsOf(port)) {
      const key = keyInFamily(family, frontendKey({ address, protocol, port: number }));
      const labels = { namespace, service, port: port.port, protocol, frontend: type };
      if (!found.has(key)) found.set(key, labels);
    }
  }
  return found;
}

function seriesKey({ port, protocol, frontend }: Labels): string {
  return `${port} ${protocol} ${frontend}`;
}
