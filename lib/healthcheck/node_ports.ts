/**
 * Health-check node ports of Services with `externalTrafficPolicy: Local`: a small HTTP server per
 * Service tells load balancers whether this node has endpoints of it. Bodies, headers and codes are
 * kube-proxy's (`pkg/proxy/healthcheck/service_health.go`).
 *
 * @module
 */
import { messageOf } from "../model/values/errors.ts";
import { splitKey } from "../model/cluster/names.ts";
import { type Family, familyOf } from "../model/values/address.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import type { HealthCheck } from "../policy/health_check.ts";
import { type AddressInputs, healthCheckAddresses, routedAddresses } from "./addresses.ts";
import type { ListenFailure } from "../findings/facts.ts";
import {
  type HttpAnswer,
  type HttpListen,
  type HttpListener,
  jsonAnswer,
  readOnly,
} from "../model/ports/http.ts";

/** What `HealthCheckNodePorts` needs. */
export interface HealthCheckNodePortsOptions {
  /** What decides on which addresses to listen. */
  readonly where: () => AddressInputs;
  /** Listens on one address, or on all of both families for `::`. */
  readonly listen: HttpListen;
  /** Whether the proxy keeps up, whatever the Node's state. */
  readonly isHealthy: () => boolean;
  readonly logger: Logger;
  readonly clock: Pick<Clock, "sleep">;
  /** Called when `failures` have changed. */
  readonly changed: () => void;
}

/** Milliseconds after which a port that could not be opened is tried again. */
const RETRY_MILLISECONDS = 5_000;

/** Milliseconds after which a load-balancer IP is tried again that was not this node's. */
const LOOK_MILLISECONDS = 30_000;

/** One group of addresses of a Service. */
interface Place {
  /** `namespace/name`. */
  readonly service: string;
  readonly port: number;
  readonly addresses: readonly string[];
  /** No interface has the address: it may be another node's. */
  readonly isRouted: boolean;
}

interface OpenPlace extends Place {
  readonly listeners: readonly HttpListener[];
}

/** Keeps one listener per Service and address, and follows changes. */
export class HealthCheckNodePorts {
  /** By what a place is, in one text. */
  readonly #open = new Map<string, OpenPlace>();
  readonly #failed = new Map<string, ListenFailure>();
  /** Places at load-balancer IPs that are not this node's. */
  readonly #elsewhere = new Set<string>();
  readonly #closing = new AbortController();
  #desired: ReadonlyMap<string, HealthCheck> = new Map();
  #work: Promise<void> = Promise.resolve();
  /** The pauses after which it syncs again. */
  readonly #waiting = new Set<number>();

  constructor(private readonly options: HealthCheckNodePortsOptions) {}

  /** The ports that cannot be opened; each is tried again every five seconds. */
  get failures(): readonly ListenFailure[] {
    return [...this.#failed.values()];
  }

  /**
   * Makes this set the one that is served.
   *
   * @param desired by `namespace/name` of the Service
   * @returns resolves when the listeners are as desired, or have failed; it does not reject
   */
  sync(desired: ReadonlyMap<string, HealthCheck>): Promise<void> {
    this.#desired = desired;
    this.#work = this.#work.then(() => this.#reconcile());
    return this.#work;
  }

  /** Ends all listeners. */
  close(): Promise<void> {
    this.#closing.abort();
    return this.sync(new Map());
  }

  async #reconcile(): Promise<void> {
    if (this.#desired.size === 0 && this.#open.size === 0) return;
    const wanted = this.#places();
    for (const [key, place] of [...this.#open]) {
      if (!wanted.has(key)) await this.#shut(key, place);
    }
    for (const key of [...this.#failed.keys()]) {
      if (!wanted.has(key)) this.#recovered(key);
    }
    for (const [key, place] of wanted) {
      if (!this.#open.has(key) && !this.#elsewhere.has(key)) await this.#start(key, place);
    }
    if (this.#failed.size > 0) this.#syncAfter(RETRY_MILLISECONDS);
    if (this.#elsewhere.size > 0) {
      this.#syncAfter(LOOK_MILLISECONDS, () => this.#elsewhere.clear());
    }
  }

  #places(): ReadonlyMap<string, Place> {
    const places = new Map<string, Place>();
    const where = this.options.where();
    for (const [service, { port, localEndpoints, loadBalancerIPs }] of this.#desired) {
      const at = { families: [...localEndpoints.keys()], loadBalancerIPs };
      const add = (addresses: readonly string[], isRouted: boolean) =>
        places.set(`${service} ${port} ${addresses.join(" ")}`, {
          service,
          port,
          addresses,
          isRouted,
        });
      for (const addresses of healthCheckAddresses(at, where)) add(addresses, false);
      for (const address of routedAddresses(at, where)) add([address], true);
    }
    return places;
  }

  async #shut(key: string, { service, port, listeners }: OpenPlace): Promise<void> {
    this.options.logger.debug(2, "closing health check", { service, port });
    this.#open.delete(key);
    await Promise.all(listeners.map((listener) => listener.close()));
  }

  /** Opens the port on all addresses, or on none. */
  async #start(key: string, place: Place): Promise<void> {
    const { listen, logger } = this.options;
    const { service, port, addresses } = place;
    const listeners: HttpListener[] = [];
    try {
      for (const hostname of addresses) {
        const handler = readOnly(({ family }) =>
          this.#answer(service, family ?? familyOf(hostname))
        );
        listeners.push(listen({ hostname, port }, handler));
      }
    } catch (error) {
      await Promise.all(listeners.map((listener) => listener.close()));
      if (place.isRouted && error instanceof Error && error.name === "AddrNotAvailable") {
        this.#elsewhere.add(key);
        return;
      }
      const isNew = !this.#failed.has(key);
      this.#failed.set(key, { service, port, reason: messageOf(error) });
      if (isNew) this.options.changed();
      return;
    }
    logger.debug(2, "opened health check", { service, port });
    this.#recovered(key);
    this.#open.set(key, { ...place, listeners });
  }

  #recovered(key: string): void {
    if (this.#failed.delete(key)) this.options.changed();
  }

  /** Each family has its own endpoints, as in kube-proxy. */
  #answer(service: string, family: Family): HttpAnswer {
    const localEndpoints = this.#desired.get(service)?.localEndpoints.get(family) ?? 0;
    const serviceProxyHealthy = this.options.isHealthy();
    const { namespace, name } = splitKey(service);
    const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy };
    const status = localEndpoints > 0 && serviceProxyHealthy ? 200 : 503;
    const answer = jsonAnswer(JSON.stringify(body, null, "\t"), status);
    return {
      ...answer,
      headers: { ...answer.headers, "X-Load-Balancing-Endpoint-Weight": String(localEndpoints) },
    };
  }

  /** Syncs again after a pause. */
  #syncAfter(milliseconds: number, prepare = () => {}): void {
    const { signal } = this.#closing;
    if (signal.aborted || this.#waiting.has(milliseconds)) return;
    this.#waiting.add(milliseconds);
    void this.options.clock.sleep(milliseconds, signal).then(() => {
      this.#waiting.delete(milliseconds);
      if (signal.aborted) return;
      prepare();
      return this.sync(this.#desired);
    });
  }
}
