/**
 * The connections of each service port, by kind of frontend. What frontends count is added where their Service is
 * in the desired state; what is known of a Service goes some time after it.
 *
 * @module
 */
import { frontendKey, keyInFamily, splitKey } from "../../model/cluster/names.ts";
import type { ServiceConnections } from "../../model/connections.ts";
import type { FrontendCount } from "../../model/kernel/connections.ts";
import type { DesiredServicePort, DesiredState } from "../../model/kernel/desired.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
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

/** Series that are kept until a reading sees which of them are gone, at least. */
const KEPT = 1_000;

/** Sums by service port. */
export class ConnectionsByService {
  readonly #services: () => DesiredState["services"];
  /** By Service, by the key of its series. */
  readonly #series = new Map<string, Map<string, Series>>();
  /** What the frontends of a Service's ports stand for, worked out once for each state of theirs. */
  readonly #frontends = new WeakMap<readonly DesiredServicePort[], ReadonlyMap<string, Labels>>();
  /** Services that had series when they were last compared with the desired state. */
  #compared = 0;

  /** @param services the present desired state */
  constructor(services: () => DesiredState["services"]) {
    this.#services = services;
  }

  /** Adds connections to a frontend, where its Service has it. */
  add({ frontend, service }: Omit<FrontendCount, "connections">, more: number): void {
    const labels = this.#frontendsOf(service).get(frontend);
    if (!labels) return;
    const ofService = this.#series.get(service) ?? new Map<string, Series>();
    this.#series.set(service, ofService);
    const key = seriesKey(labels);
    const series = ofService.get(key) ?? { labels, total: 0, fresh: 0, perSecond: 0 };
    ofService.set(key, series);
    series.total += more;
    series.fresh += more;
    if (this.#series.size > 2 * Math.max(KEPT, this.#compared)) atOnce(this.#forgetting());
  }

  /**
   * A reading ends. Yields after each Service; more may be added meanwhile.
   *
   * @param seconds since the one before; `undefined`: it is the first
   */
  *finishReading(seconds: number | undefined): Generator<undefined, void> {
    yield* this.#forgetting();
    for (const ofService of this.#series.values()) {
      yield;
      for (const series of ofService.values()) {
        series.perSecond = seconds === undefined ? 0 : series.fresh / seconds;
        series.fresh = 0;
      }
    }
  }

  /** All that had connections, as of the last reading, each once, though another one begins meanwhile. */
  *list(): Iterable<ServiceConnections> {
    for (const ofService of [...this.#series.values()]) {
      for (const { labels, total, perSecond } of ofService.values()) {
        yield { ...labels, connections: total, perSecond };
      }
    }
  }

  /** Drops what the desired state does not have any more. */
  *#forgetting(): Generator<undefined, void> {
    for (const [service, ofService] of this.#series) {
      yield;
      const there = new Set([...this.#frontendsOf(service).values()].map(seriesKey));
      for (const key of ofService.keys()) if (!there.has(key)) ofService.delete(key);
      if (ofService.size === 0) this.#series.delete(service);
    }
    this.#compared = this.#series.size;
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
