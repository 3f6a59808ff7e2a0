/**
 * Serves health-check node ports of Services with `externalTrafficPolicy: Local`. Bodies, headers and codes are
 * kube-proxy's (`pkg/proxy/healthcheck/service_health.go`).
 */
import { messageOf } from "../model/values/errors.ts";
import { splitKey } from "../model/cluster/names.ts";
import { cidrContains, type Family, familyOf, isLinkLocal } from "../model/values/address.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import type { HealthCheck } from "../policy/service.ts";
import type { Finding } from "../model/status.ts";
import { finding } from "../findings/catalog.ts";
import {
  type HttpAnswer,
  type HttpListen,
  type HttpListener,
  jsonAnswer,
  readOnly,
} from "../model/ports/http.ts";
import type { DesiredNode } from "../model/kernel/desired.ts";

/** The daemon that owns the ports. */
interface Owner {
  /** Returns the facts that decide the listen addresses. */
  readonly where: () => AddressInputs;
  /** Returns true if the proxy is healthy. The Node's state does not count. */
  readonly isHealthy: () => boolean;
  readonly logger: Logger;
  /** Called when `failures` have changed. */
  readonly changed: () => void;
}

interface HealthCheckNodePortsOptions {
  readonly listen: HttpListen;
  readonly clock: Pick<Clock, "sleep">;
}

/** Milliseconds until ports that cannot be opened are tried again. */
const RETRY = 5_000;

/** The same for ports at addresses that this node does not have: a try of a thousand ports takes 80 ms. */
const ABSENT_RETRY = 30_000;

/** Milliseconds for which ports answer as before while one daemon ends and the next one starts. */
const HAND_OVER = 10_000;

/** A port of a Service on a group of addresses that are opened together. */
interface PortGroup {
  readonly service: string;
  readonly port: number;
  readonly addresses: readonly string[];
}

interface OpenGroup extends PortGroup {
  readonly listeners: readonly HttpListener[];
}

/** Keeps listeners for the wanted ports. One object lives as long as the process. */
export class HealthCheckNodePorts {
  /** By the fields of the group, as one text. */
  readonly #open = new Map<string, OpenGroup>();
  readonly #failed = new Map<string, Finding>();
  /** Groups at addresses that this node does not have, such as load-balancer IPs of other nodes. */
  readonly #absent = new Set<string>();
  readonly #closing = new AbortController();
  #desired: ReadonlyMap<string, HealthCheck> = new Map();
  #owner: Owner | undefined;
  #work: Promise<void> = Promise.resolve();
  /** The pauses before a retry that are running, in milliseconds. */
  readonly #pauses = new Set<number>();

  constructor(private readonly options: HealthCheckNodePortsOptions) {}

  get failures(): readonly Finding[] {
    return [...this.#failed.values()];
  }

  /** Opens and closes listeners for this set, by `namespace/name` of the Service. Never rejects. */
  sync(desired: ReadonlyMap<string, HealthCheck>, owner: Owner): Promise<void> {
    this.#desired = desired;
    this.#owner = owner;
    this.#work = this.#work.then(() => this.#reconcile(owner));
    return this.#work;
  }

  /** Leaves the ports to the next daemon. If no daemon syncs within ten seconds, they answer 503. */
  release(): void {
    const owner = this.#owner;
    void this.options.clock.sleep(HAND_OVER, this.#closing.signal).then(() => {
      if (owner && this.#owner === owner) this.#owner = { ...owner, isHealthy: () => false };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    if (this.#owner) await this.sync(new Map(), this.#owner);
  }

  async #reconcile(owner: Owner): Promise<void> {
    if (this.#desired.size + this.#open.size + this.#failed.size === 0) return;
    const wanted = this.#groups(owner.where());
    for (const [key, { service, port, listeners }] of [...this.#open]) {
      if (wanted.has(key)) continue;
      owner.logger.debug(2, "closing health-check node port", { service, port });
      this.#open.delete(key);
      await Promise.all(listeners.map((listener) => listener.close()));
    }
    for (const key of [...this.#failed.keys()]) {
      if (!wanted.has(key)) this.#recovered(key, owner);
    }
    for (const [key, group] of wanted) {
      if (!this.#open.has(key) && !this.#absent.has(key)) await this.#start(key, group, owner);
    }
    if (this.#failed.size > 0) this.#retryAfter(RETRY);
    if (this.#absent.size > 0) this.#retryAfter(ABSENT_RETRY);
  }

  #groups(where: AddressInputs): ReadonlyMap<string, PortGroup> {
    const groups = new Map<string, PortGroup>();
    for (const [service, { port, localEndpoints, loadBalancerIPs }] of this.#desired) {
      const at = { families: [...localEndpoints.keys()], loadBalancerIPs };
      for (const addresses of healthCheckAddresses(at, where)) {
        groups.set([service, port, ...addresses].join(" "), { service, port, addresses });
      }
    }
    return groups;
  }

  /** Opens the port on all addresses of a group. If one fails, closes all. */
  async #start(key: string, group: PortGroup, owner: Owner): Promise<void> {
    const { service, port, addresses } = group;
    const listeners: HttpListener[] = [];
    try {
      for (const hostname of addresses) {
        const handler = readOnly(({ family }) =>
          this.#answer(service, family ?? familyOf(hostname))
        );
        listeners.push(this.options.listen({ hostname, port }, handler));
      }
    } catch (error) {
      await Promise.all(listeners.map((listener) => listener.close()));
      if (error instanceof Error && error.name === "AddrNotAvailable") {
        this.#absent.add(key);
        return this.#recovered(key, owner);
      }
      const isNew = !this.#failed.has(key);
      const what = `this node cannot listen on health-check node port ${port} of ${service}: ` +
        messageOf(error);
      const where = `${service} port ${port}`;
      this.#failed.set(
        key,
        finding("health-check-port-taken", { what, where, services: [service] }),
      );
      if (isNew) owner.changed();
      return;
    }
    owner.logger.debug(2, "opened health-check node port", { service, port });
    this.#recovered(key, owner);
    this.#open.set(key, { ...group, listeners });
  }

  #recovered(key: string, owner: Owner): void {
    if (this.#failed.delete(key)) owner.changed();
  }

  /** Returns the answer of a Service. As in kube-proxy, each family has its own endpoints. */
  #answer(service: string, family: Family): HttpAnswer {
    const localEndpoints = this.#desired.get(service)?.localEndpoints.get(family) ?? 0;
    const serviceProxyHealthy = this.#owner?.isHealthy() ?? false;
    const { namespace, name } = splitKey(service);
    const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy };
    const status = localEndpoints > 0 && serviceProxyHealthy ? 200 : 503;
    const answer = jsonAnswer(JSON.stringify(body, null, "\t"), status);
    return {
      ...answer,
      headers: { ...answer.headers, "X-Load-Balancing-Endpoint-Weight": String(localEndpoints) },
    };
  }

  #retryAfter(pause: number): void {
    const { signal } = this.#closing;
    if (this.#pauses.has(pause) || signal.aborted) return;
    this.#pauses.add(pause);
    void this.options.clock.sleep(pause, signal).then(() => {
      this.#pauses.delete(pause);
      if (pause === ABSENT_RETRY) this.#absent.clear();
      if (this.#owner && !signal.aborted) return this.sync(this.#desired, this.#owner);
    });
  }
}

/** The families and load-balancer IPs of a Service. Some clouds probe the load-balancer IPs. */
interface ProbedAddresses {
  readonly families: readonly Family[];
  readonly loadBalancerIPs: readonly string[];
}

interface AddressInputs {
  readonly node: DesiredNode;
  readonly ownAddresses: readonly string[];
}

/** Returns the listen addresses in groups that are opened together. A socket on `::` serves both families. */
export function healthCheckAddresses(
  { families, loadBalancerIPs }: ProbedAddresses,
  { node, ownAddresses }: AddressInputs,
): readonly (readonly string[])[] {
  const isAll = (family: Family) => node.families[family].nodePortAddresses.type === "all";
  if (families.includes(6) && isAll(4) && isAll(6)) return [["::"]];
  const groups = families.map((family) => {
    const { nodePortAddresses } = node.families[family];
    if (family === 4 && nodePortAddresses.type === "all") return ["0.0.0.0"];
    return ownAddresses.filter((address) =>
      familyOf(address) === family && !isLinkLocal(address) &&
      (nodePortAddresses.type === "all" ||
        nodePortAddresses.cidrs.some((cidr) => cidrContains(cidr, address)))
    );
  });
  const open = groups.flat();
  // A load-balancer IP may be on no interface: guest agents of some clouds add local routes.
  const vips = loadBalancerIPs.filter((address) =>
    families.includes(familyOf(address)) && !isAll(familyOf(address)) && !open.includes(address)
  );
  return [...groups, ...vips.map((address) => [address])]
    .map((group) => [...new Set(group)].sort()).filter((group) => group.length > 0);
}
