/**
 * Health-check node ports of Services with `externalTrafficPolicy: Local`: a small HTTP server per
 * Service tells load balancers whether this node has endpoints of it. Bodies, headers and codes are
 * kube-proxy's (`pkg/proxy/healthcheck/service_health.go`).
 *
 * @module
 */
import type { Clock, Logger } from "../model/ports.ts";
import { ChangeFilter } from "../model/change_filter.ts";
import type { EventReport } from "../model/event_report.ts";
import {
  type HttpAnswer,
  type HttpListen,
  type HttpListener,
  jsonAnswer,
  readOnly,
} from "../model/http.ts";

/** What one Service wants. */
export interface HealthCheck {
  /** `spec.healthCheckNodePort`. */
  readonly port: number;
  /** Number of distinct addresses of ready endpoints on this node. */
  readonly localEndpoints: number;
  /** Of the Service, for Events; `""`: not known. */
  readonly uid: string;
}

/** What `HealthCheckNodePorts` needs. */
export interface HealthCheckNodePortsOptions {
  /** The node's addresses that take node ports; `0.0.0.0`: all of both families. */
  readonly addresses: () => readonly string[];
  readonly listen: HttpListen;
  /** Whether the proxy keeps up, whatever the Node's state. */
  readonly isHealthy: () => boolean;
  readonly logger: Logger;
  readonly clock: Pick<Clock, "sleep">;
  /** Takes an Event when a port cannot be opened. */
  readonly report: (event: EventReport) => void;
  /** The name of this node, for Events. */
  readonly nodeName: string;
}

/** Milliseconds after which a port that could not be opened is tried again. */
const RETRY_MILLISECONDS = 5_000;

interface OpenPort {
  readonly port: number;
  readonly addresses: string;
  readonly listeners: readonly HttpListener[];
}

/** Keeps one listener per Service and address, and follows changes. */
export class HealthCheckNodePorts {
  readonly #options: HealthCheckNodePortsOptions;
  readonly #open = new Map<string, OpenPort>();
  readonly #failures = new ChangeFilter();
  readonly #closing = new AbortController();
  #desired: ReadonlyMap<string, HealthCheck> = new Map();
  #work: Promise<void> = Promise.resolve();
  #retrying = false;

  constructor(options: HealthCheckNodePortsOptions) {
    this.#options = options;
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
    const addresses = [...new Set(this.#options.addresses())];
    const wanted = addresses.join(" ");
    for (const [service, open] of [...this.#open]) {
      const { port } = this.#desired.get(service) ?? {};
      if (port !== open.port || wanted !== open.addresses) await this.#shut(service, open);
    }
    let failed = false;
    for (const [service, check] of this.#desired) {
      if (this.#open.has(service)) continue;
      failed = !await this.#start(service, { check, addresses }) || failed;
    }
    if (failed) this.#retryLater();
  }

  async #shut(service: string, { port, listeners }: OpenPort): Promise<void> {
    this.#options.logger.debug(2, "closing health check", { service, port });
    this.#open.delete(service);
    this.#failures.clear(service);
    await Promise.all(listeners.map((listener) => listener.close()));
  }

  /** Opens the port on all addresses, or on none. */
  async #start(
    service: string,
    { check, addresses }: { readonly check: HealthCheck; readonly addresses: readonly string[] },
  ): Promise<boolean> {
    const { listen, logger } = this.#options;
    const { port } = check;
    const listeners: HttpListener[] = [];
    const handler = readOnly(() => this.#answer(service));
    try {
      for (const hostname of addresses) listeners.push(listen({ hostname, port }, handler));
    } catch (error) {
      await Promise.all(listeners.map((listener) => listener.close()));
      this.#fail(service, { check, error });
      return false;
    }
    logger.debug(2, "opened health check", { service, port });
    this.#failures.clear(service);
    this.#open.set(service, { port, addresses: addresses.join(" "), listeners });
    return true;
  }

  #answer(service: string): HttpAnswer {
    const { localEndpoints } = this.#desired.get(service) ?? { localEndpoints: 0 };
    const serviceProxyHealthy = this.#options.isHealthy();
    const { namespace, name } = splitKey(service);
    const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy };
    const status = localEndpoints > 0 && serviceProxyHealthy ? 200 : 503;
    const answer = jsonAnswer(JSON.stringify(body, null, "\t"), status);
    return {
      ...answer,
      headers: { ...answer.headers, "X-Load-Balancing-Endpoint-Weight": String(localEndpoints) },
    };
  }

  #fail(
    service: string,
    { check, error }: { readonly check: HealthCheck; readonly error: unknown },
  ): void {
    const reason = error instanceof Error ? error.message : String(error);
    const { port, uid } = check;
    if (!this.#failures.changed(service, `${port} ${reason}`)) return;
    const { logger, report, nodeName } = this.#options;
    logger.error("cannot open health check node port; trying again every 5 seconds", {
      service,
      port,
      error: reason,
    });
    report({
      regarding: { kind: "Service", ...splitKey(service), uid },
      type: "Warning",
      reason: "FailedToStartServiceHealthcheck",
      action: "Listen",
      note: `node ${nodeName} cannot listen on health check node port ${port}: ${reason}`,
    });
  }

  #retryLater(): void {
    const { signal } = this.#closing;
    if (this.#retrying || signal.aborted) return;
    this.#retrying = true;
    void this.#options.clock.sleep(RETRY_MILLISECONDS, signal).then(() => {
      this.#retrying = false;
      return signal.aborted ? undefined : this.sync(this.#desired);
    });
  }
}

function splitKey(service: string): { readonly namespace: string; readonly name: string } {
  const slash = service.indexOf("/");
  return { namespace: service.slice(0, slash), name: service.slice(slash + 1) };
}
