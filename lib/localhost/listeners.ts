/** Serves node ports on loopback: a TCP listener for each, and a connection for each client. */
import { Turns } from "../model/ports/in_turns.ts";
import type { Finding, LocalhostSummary } from "../model/status.ts";
import type { Clock, Logger, Tcp, TcpConnection, TcpListener } from "../model/ports/ports.ts";
import { addressInProc, type Family } from "../model/values/address.ts";
import { hostPort, serviceOf } from "../model/cluster/names.ts";
import { messageOf } from "../model/values/errors.ts";
import { finding } from "../findings/catalog.ts";
import { LISTEN_ADDRESS, localhostEndpoints } from "../policy/frontend.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
  Destination,
} from "../model/kernel/desired.ts";
import type { ServiceDifference } from "../model/kernel/differences.ts";
import type { SyncOutcome } from "../sync/reports.ts";

export interface LocalhostNodePort {
  /** `namespace/name:port`. */
  readonly servicePort: string;
  readonly family: Family;
  readonly port: number;
  /** At least one. */
  readonly endpoints: readonly Destination[];
  /** Seconds that local clients stay on one endpoint; 0 without affinity. */
  readonly affinitySeconds: number;
}

/** Keeps the listeners that the desired state asks for. Reads changed Services only. */
export class LocalhostNodePorts {
  /** The Services with wanted listeners. */
  readonly #byService = new Map<string, readonly LocalhostNodePort[]>();
  #wanted: ReadonlyMap<string, LocalhostNodePort> = new Map();
  /** True if `#wanted` is older than the state, because a sync failed. */
  #isBehind = true;

  constructor(private readonly state: DesiredState) {}

  /** Returns the wanted listeners by family and port. A change makes a new map. */
  get wanted(): ReadonlyMap<string, LocalhostNodePort> {
    return this.#wanted;
  }

  /** Follows the outcome of a sync. @yields when other work can run */
  *following({ change, applied, isFull }: SyncOutcome): Generator<undefined, void> {
    this.#isBehind ||= isFull || applied === undefined || change.node !== undefined;
    if (applied === undefined) return;
    const { services } = this.state;
    let isChanged = this.#isBehind;
    if (this.#isBehind) this.#byService.clear();
    for (const key of (this.#isBehind ? services : change.services).keys()) {
      const wanted = wantedListeners(services.get(key) ?? [], this.state.node);
      isChanged = this.#byService.delete(key) || wanted.length > 0 || isChanged;
      if (wanted.length > 0) this.#byService.set(key, wanted);
      yield;
    }
    this.#isBehind = false;
    if (!isChanged) return;
    const all = [...this.#byService.values()].flat();
    this.#wanted = new Map(all.map((each) => [`${each.family} ${each.port}`, each]));
  }
}

export function wantedListeners(
  ports: readonly DesiredServicePort[],
  node: DesiredNode,
): LocalhostNodePort[] {
  return ports.flatMap((each) => {
    const { name: servicePort, family, nodePort: port, affinitySeconds } = each;
    const endpoints = localhostEndpoints(each, node);
    return endpoints.length === 0
      ? []
      : [{ servicePort, family, port, endpoints, affinitySeconds }];
  });
}

/** Returns the missing listeners. @param sockets the text of /proc/net/tcp and /proc/net/tcp6 (proc(5)) */
export function missingListeners(
  wanted: readonly Pick<LocalhostNodePort, "servicePort" | "family" | "port">[],
  sockets: string,
): ServiceDifference[] {
  // The state 0A is LISTEN.
  const found = sockets.matchAll(/^\s*\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F:]+ 0A /gm);
  const listening = new Set(
    Array.from(
      found,
      ([, address = "", port]) => hostPort(addressInProc(address), Number(`0x${port}`)),
    ),
  );
  return wanted.flatMap(({ family, port, servicePort: service }) => {
    const key = hostPort(LISTEN_ADDRESS[family], port);
    if (listening.has(key)) return [];
    return [{ type: "missing", in: "listeners on loopback", key, desired: "", held: "", service }];
  });
}

/** Milliseconds in which an endpoint must answer, as in kube-proxy. */
const DIAL_TIMEOUT = 5_000;

/** Milliseconds until a port that cannot be opened is tried again. */
const RETRY = 5_000;

/** The most open connections. Each takes two file descriptors. */
const MOST_CONNECTIONS = 4_096;

/** The most open connections of one Service. Other Services keep the rest. */
const MOST_OF_SERVICE = MOST_CONNECTIONS / 2;

export interface FamilyCounts {
  listenFailures: number;
  connections: number;
  /** Connections that were closed before they reached an endpoint, by the reason. */
  readonly failures: Record<"no-answer" | "too-many", number>;
}

interface LocalhostListenersOptions {
  readonly tcp: Tcp;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** Called when the last connection has ended. */
  readonly idle?: () => void;
}

interface Open {
  readonly listener: TcpListener;
  readonly choice: EndpointChoice;
  wanted: LocalhostNodePort;
}

/** Keeps a listener for each wanted node port. One object lives as long as the process. */
export class LocalhostListeners {
  readonly #open = new Map<string, Open>();
  readonly #failed = new Map<string, Finding>();
  /** The clients, each with its Service, and with the endpoint after it has answered. */
  readonly #connections = new Map<TcpConnection, { service: string; endpoint?: TcpConnection }>();
  /** The number of connections by Service, without zeros. */
  readonly #byService = new Map<string, number>();
  readonly #closing = new AbortController();
  #wanted: ReadonlyMap<string, LocalhostNodePort> = new Map();
  #logger: Logger | undefined;
  #work: Promise<void> = Promise.resolve();
  #isRetrying = false;
  /** True if the log has a line about too many open connections. */
  #isFull = false;
  readonly counts: Readonly<Record<Family, FamilyCounts>> = { 4: noCounts(), 6: noCounts() };

  constructor(private readonly options: LocalhostListenersOptions) {}

  /** Ends the connections of deleted Services. @param services all Services, also without endpoints */
  endDeleted(services: { has(service: string): boolean }): void {
    if (this.#byService.keys().every((service) => services.has(service))) return;
    for (const [client, { service, endpoint }] of this.#connections) {
      if (services.has(service)) continue;
      client.close();
      endpoint?.close();
    }
  }

  /** Opens new listeners and closes unwanted ones. All connections stay. Never rejects. */
  sync(wanted: ReadonlyMap<string, LocalhostNodePort>, logger: Logger): Promise<void> {
    this.#logger = logger;
    if (wanted === this.#wanted && this.#failed.size === 0) return this.#work;
    this.#wanted = wanted;
    return this.#work = this.#work.then(() => this.#reconcile());
  }

  listeners(family: Family): number {
    return this.#open.values().filter(({ wanted }) => wanted.family === family).toArray().length;
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Returns the numbers of listeners and connections; `undefined` without wanted listeners and connections. */
  get summary(): LocalhostSummary | undefined {
    const [listeners, connections] = [this.#open.size, this.#connections.size];
    const refused = this.counts[4].failures["too-many"] + this.counts[6].failures["too-many"];
    return this.#wanted.size + connections === 0 ? undefined : { listeners, connections, refused };
  }

  get failures(): readonly Finding[] {
    return [...this.#failed.values()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#work;
    const open = [...this.#open.values()];
    this.#open.clear();
    for (const [client, { endpoint }] of this.#connections) {
      client.close();
      endpoint?.close();
    }
    await Promise.all(open.map(({ listener }) => listener.close()));
  }

  async #reconcile(): Promise<void> {
    const { signal } = this.#closing;
    const turns = new Turns(this.options.clock);
    const wanted = this.#wanted;
    for (const [key, { listener, wanted: { servicePort, port } }] of this.#open) {
      if (wanted.has(key)) continue;
      this.#open.delete(key);
      await listener.close();
      this.#logger?.debug(2, "closed node port on loopback", { servicePort, port });
      await turns.yieldIfDue();
    }
    for (const key of this.#failed.keys()) if (!wanted.has(key)) this.#failed.delete(key);
    for (const [key, each] of wanted) {
      // If the wanted ports have changed, another sync follows.
      if (this.#wanted !== wanted || signal.aborted) return;
      const open = this.#open.get(key);
      if (open) {
        open.wanted = each;
        open.choice.update(each);
      } else this.#start(key, each);
      await turns.yieldIfDue();
    }
    if (this.#failed.size > 0) this.#retryLater();
  }

  #start(key: string, wanted: LocalhostNodePort): void {
    const { tcp } = this.options;
    const { family, port, servicePort } = wanted;
    const address = LISTEN_ADDRESS[family];
    const choice = new EndpointChoice(wanted);
    try {
      const listener = tcp.listen({ address, port }, (client) => void this.#serve(client, open));
      const open: Open = { listener, choice, wanted };
      this.#open.set(key, open);
    } catch (error) {
      this.counts[family].listenFailures++;
      const where = hostPort(address, port);
      const what = `cannot listen on ${where} for ${servicePort}: ${messageOf(error)}`;
      const services = [serviceOf(servicePort)];
      this.#failed.set(key, finding("localhost-node-port-taken", { what, where, services }));
      return;
    }
    this.#failed.delete(key);
    this.#logger?.debug(2, "opened node port on loopback", { servicePort, address, port });
  }

  #retryLater(): void {
    const { signal } = this.#closing;
    if (this.#isRetrying || signal.aborted) return;
    this.#isRetrying = true;
    void this.options.clock.sleep(RETRY, signal).then(() => {
      this.#isRetrying = false;
      if (!signal.aborted && this.#logger) void this.sync(this.#wanted, this.#logger);
    });
  }

  async #serve(client: TcpConnection, open: Open): Promise<void> {
    const { signal } = this.#closing;
    const counts = this.counts[open.wanted.family];
    if (signal.aborted) return client.close();
    const service = serviceOf(open.wanted.servicePort);
    const same = this.#byService.get(service) ?? 0;
    if (same >= MOST_OF_SERVICE || this.#connections.size >= MOST_CONNECTIONS) {
      counts.failures["too-many"]++;
      this.#reportTooMany(service, same);
      return client.close();
    }
    this.#byService.set(service, same + 1);
    this.#connections.set(client, { service });
    const endpoint = await this.#connect(open);
    if (signal.aborted) endpoint?.close();
    else if (!endpoint) counts.failures["no-answer"]++;
    else {
      counts.connections++;
      this.#connections.set(client, { service, endpoint });
      await client.join(endpoint);
    }
    client.close();
    this.#connections.delete(client);
    const left = (this.#byService.get(service) ?? 1) - 1;
    if (left > 0) this.#byService.set(service, left);
    else this.#byService.delete(service);
    if (this.#connections.size > 0) return;
    this.#isFull = false;
    this.options.idle?.();
  }

  #reportTooMany(service: string, connections: number): void {
    if (this.#isFull) return;
    this.#isFull = true;
    this.#logger?.warn("closing new connections to node ports on loopback: too many are open", {
      service,
      connections,
      mostOfService: MOST_OF_SERVICE,
      limit: MOST_CONNECTIONS,
    });
  }

  /** Returns a connection to the first endpoint that answers. */
  async #connect({ choice, wanted: { servicePort } }: Open): Promise<TcpConnection | undefined> {
    const { tcp, clock } = this.options;
    const { signal } = this.#closing;
    for (const endpoint of choice.candidates(clock.monotonic())) {
      try {
        const connection = await tcp.connect(endpoint, { timeout: DIAL_TIMEOUT, signal });
        choice.answered(endpoint, clock.monotonic());
        return connection;
      } catch (error) {
        if (signal.aborted) return undefined;
        this.#logger?.debug(2, "cannot connect a node port on loopback to an endpoint", {
          servicePort,
          endpoint: hostPort(endpoint.address, endpoint.port),
          error: messageOf(error),
        });
      }
    }
    return undefined;
  }
}

function noCounts(): FamilyCounts {
  return { listenFailures: 0, connections: 0, failures: { "no-answer": 0, "too-many": 0 } };
}

/** The most endpoints to try for one connection. Each may take the whole timeout. */
const MOST_TRIES = 5;

type Endpoints = Pick<LocalhostNodePort, "endpoints" | "affinitySeconds">;

/** Chooses the endpoints of one node port. For session affinity, all local clients are one client. */
export class EndpointChoice {
  #pinned: { readonly endpoint: Destination; readonly at: number } | undefined;

  constructor(private port: Endpoints, private readonly random = Math.random) {}

  /** Replaces the endpoints. A new affinity timeout ends the affinity of the clients. */
  update(port: Endpoints): void {
    if (port.affinitySeconds !== this.port.affinitySeconds) this.#pinned = undefined;
    this.port = port;
  }

  /** Yields the endpoints to try, each once. @param now monotonic milliseconds */
  *candidates(now: number): Generator<Destination, void> {
    const { endpoints } = this.port;
    const tried = new Set<number>();
    const pinned = this.#pinnedIndex(now);
    while (tried.size < Math.min(endpoints.length, MOST_TRIES)) {
      const index = tried.size === 0 && pinned >= 0
        ? pinned
        : Math.floor(this.random() * endpoints.length);
      const endpoint = endpoints[index];
      if (tried.has(index) || endpoint === undefined) continue;
      tried.add(index);
      yield endpoint;
    }
  }

  /** Sets the endpoint of later clients, if the port has session affinity. */
  answered(endpoint: Destination, now: number): void {
    if (this.port.affinitySeconds > 0) this.#pinned = { endpoint, at: now };
  }

  #pinnedIndex(now: number): number {
    const pinned = this.#pinned;
    if (!pinned || now - pinned.at > this.port.affinitySeconds * 1000) return -1;
    return this.port.endpoints.findIndex(({ address, port }) =>
      address === pinned.endpoint.address && port === pinned.endpoint.port
    );
  }
}
