/**
 * Limits the cost that one Service and one namespace have on every node.
 * A Service over a limit is refused like a malformed object: its last state within the limits stays in force. If
 * only its endpoints grew, its rules stay unchanged. A Service that was never within the limits does not get rules. One
 * step of a Service is limited too, so that other Services need not wait for it.
 */
import { familyOf } from "../model/values/address.ts";
import type { Snapshot } from "../cache/cache.ts";
import { splitKey } from "../model/cluster/names.ts";
import type { Limits } from "../model/configuration.ts";
import type { EndpointSlice, Refusal, Service } from "../model/cluster/objects.ts";
import { commonStart, keyOf, portKey } from "./endpoints.ts";
import { only } from "../model/values/lists.ts";
import { grouped } from "../model/values/text.ts";
import { type SchedulerDefaults, schedulerOf, slotsFor } from "../model/cluster/scheduler.ts";
import { familiesOf } from "./service_claims.ts";
import type { DesiredServicePort, Destination } from "../model/kernel/desired.ts";

export interface OverLimit extends Refusal {
  readonly kind: "Service";
  readonly limit: string;
}

/** A Service with its `namespace/name`; `undefined` if it is gone. */
interface NamedService {
  readonly key: string;
  readonly service: Service | undefined;
}

/** The state of a Service that is in force. */
interface Admitted {
  readonly service: Service;
  readonly cost: number;
  /** Set while the Service is over its limit: its rules no longer follow its endpoints. */
  readonly isFrozen?: true;
}

/** The cost of one chain in elements. A chain slows down every transaction, an element only its own. */
const CHAIN_COST = 20;

/** Returns the cost of a Service for every node, in elements. Every endpoint counts, ready or not. */
export function costOf(
  service: Service,
  slices: readonly EndpointSlice[],
  schedulers: SchedulerDefaults,
): number {
  const scheduler = schedulerOf(service.scheduler, schedulers);
  const ports = service.ports.length;
  const nodePorts = service.ports.filter(({ nodePort }) => nodePort !== 0).length;
  const endpoints = { 4: 0, 6: 0 };
  let cost = ports + service.sourceRanges.length;
  for (const slice of slices) {
    endpoints[slice.family] += slice.endpoints.length;
    cost += slice.ports.length;
  }
  for (const family of familiesOf(service)) {
    const ofFamily = (list: readonly string[]) =>
      list.reduce((sum, each) => sum + (familyOf(each) === family ? 1 : 0), 0);
    const balanced = ofFamily(service.loadBalancerIPs);
    const addresses = ofFamily(service.clusterIPs) + balanced + ofFamily(service.externalIPs);
    const frontends = addresses * ports + nodePorts;
    cost += frontends * (1 + slotsFor(endpoints[family], scheduler)) +
      balanced * ports * ofFamily(service.sourceRanges);
    if (service.affinitySeconds > 0) cost += CHAIN_COST * ports * endpoints[family];
    else if (scheduler?.type === "round-robin") cost += CHAIN_COST * ports;
  }
  return cost;
}

export class Admission {
  readonly #admitted = new Map<string, Admitted>();
  readonly #totals = new Map<string, number>();
  readonly #over = new Map<string, OverLimit>();
  /** Namespaces whose costs fell. */
  #shrunk = new Set<string>();

  /** @param schedulers the scheduler of Services without an annotation */
  constructor(private readonly limits: Limits, private readonly schedulers: SchedulerDefaults) {}

  /** Returns the state of a Service that is in force; `undefined` if it does not get rules. */
  inForce(key: string): Admitted | undefined {
    return this.#admitted.get(key);
  }

  get over(): ReadonlyMap<string, OverLimit> {
    return this.#over;
  }

  /** Checks changed Services, then refused ones that may fit now. @returns all Services that were checked */
  *following(
    changed: ReadonlySet<string>,
    { objects, serviceOf }: {
      readonly objects: Pick<Snapshot, "slicesOf">;
      readonly serviceOf: (key: string) => Service | undefined;
    },
  ): Generator<undefined, ReadonlySet<string>> {
    const judging = (keys: ReadonlySet<string>) =>
      this.#judging(keys.values().map((key) => ({ key, service: serviceOf(key) })), objects);
    yield* judging(changed);
    const shrunk = this.#shrunk;
    this.#shrunk = new Set();
    const retries = this.#over.keys().filter((key) => shrunk.has(splitKey(key).namespace));
    const retried = new Set(retries);
    yield* judging(retried);
    return changed.union(retried);
  }

  /** Checks Services: the oldest first, then the first by name. @yields when other work can run */
  *#judging(
    services: Iterable<NamedService>,
    objects: Pick<Snapshot, "slicesOf">,
  ): Generator<undefined, void> {
    for (const each of [...services].sort(olderFirst)) {
      this.#judge(each, objects.slicesOf(each.key));
      yield;
    }
  }

  #judge({ key, service }: NamedService, slices: readonly EndpointSlice[]): void {
    this.#over.delete(key);
    const last = this.#admitted.get(key);
    if (service === undefined) return this.#admit(key, undefined);
    const candidates = last && last.service !== service ? [service, last.service] : [service];
    for (const candidate of candidates) {
      const cost = costOf(candidate, slices, this.schedulers);
      const over = this.#excess(key, cost);
      if (over === undefined) return this.#admit(key, { service: candidate, cost });
      if (!this.#over.has(key)) this.#over.set(key, over);
    }
    if (last) this.#admitted.set(key, { ...last, isFrozen: true });
  }

  #excess(key: string, cost: number): OverLimit | undefined {
    const { limits } = this;
    const over = (limit: string, asks: string): OverLimit => ({
      kind: "Service",
      key,
      limit,
      reason: `${asks} (${limit}): ask for less, or raise the limit`,
    });
    if (cost > limits.service) {
      return over(
        "--max-service-cost",
        `it costs ${grouped(cost)} elements (its frontends with their endpoints, and ports), ` +
          `one Service may cost ${grouped(limits.service)}`,
      );
    }
    const { namespace } = splitKey(key);
    const own = this.#admitted.get(key)?.cost ?? 0;
    const sum = (this.#totals.get(namespace) ?? 0) - own + cost;
    // A change that costs no more than before is never refused.
    if (cost <= own || sum <= limits.namespace) return undefined;
    return over(
      "--max-namespace-cost",
      `with it, namespace ${namespace} costs ${grouped(sum)} elements, ` +
        `one namespace may cost ${grouped(limits.namespace)}`,
    );
  }

  /** Sets the state in force, and replaces the Service's part of its namespace's cost. */
  #admit(key: string, state: Admitted | undefined): void {
    const { namespace } = splitKey(key);
    const more = (state?.cost ?? 0) - (this.#admitted.get(key)?.cost ?? 0);
    const total = (this.#totals.get(namespace) ?? 0) + more;
    if (more < 0) this.#shrunk.add(namespace);
    if (total === 0) this.#totals.delete(namespace);
    else this.#totals.set(namespace, total);
    if (state) this.#admitted.set(key, state);
    else this.#admitted.delete(key);
  }
}

function olderFirst(a: NamedService, b: NamedService): number {
  const age = (a.service?.created ?? 0) - (b.service?.created ?? 0);
  return age !== 0 ? age : a.key < b.key ? -1 : 1;
}

/**
 * Limits one step of a Service. Removals are complete. New ports, addresses and endpoints follow in list order up
 * to the cost of one step (`most`, in elements). Each step adds at least one part. The last step returns the wanted
 * ports themselves.
 */
export function limitGrowth(
  before: readonly DesiredServicePort[],
  { wanted, most }: { readonly wanted: readonly DesiredServicePort[]; readonly most: number },
): readonly DesiredServicePort[] {
  if (most === Infinity) return wanted;
  const known = new Map(before.map((port) => [portKey(port, port.family), port]));
  let left = most;
  let isCut = false;
  const ports: DesiredServicePort[] = [];
  for (const port of wanted) {
    const last = known.get(portKey(port, port.family));
    const added = additions(port, last);
    if (added.cost <= left) ports.push(port);
    else {
      isCut = true;
      if (left > 0 || last) ports.push(cutPort(port, { added, most: left }));
    }
    left = Math.max(0, left - added.cost);
  }
  return isCut ? ports : wanted;
}

function addressesOf(port: DesiredServicePort): readonly string[] {
  const { clusterIPs, loadBalancerIPs, externalIPs, nodePort } = port;
  const all = [...clusterIPs, ...loadBalancerIPs, ...externalIPs];
  return nodePort === 0 ? all : [...all, `node port ${nodePort}`];
}

function costOfEndpoint(port: DesiredServicePort): number {
  return port.affinitySeconds > 0 ? CHAIN_COST : Math.max(1, addressesOf(port).length);
}

type Additions = ReturnType<typeof additions>;

/** Returns the parts of a port that its last state lacks, and their cost in elements. */
function additions(port: DesiredServicePort, last: DesiredServicePort | undefined) {
  const known = new Set(last && addressesOf(last));
  const addresses = addressesOf(port).filter((address) => !known.has(address));
  const cluster = newcomers(port.clusterEndpoints, last?.clusterEndpoints);
  const local = newcomers(port.localEndpoints, last?.localEndpoints);
  const all = port.clusterEndpoints.length + port.localEndpoints.length;
  // Each address of a new port is in the cost of its endpoints, which are all new.
  const each = 1 + (last === undefined ? 0 : all);
  const cost = (cluster.length + local.length) * costOfEndpoint(port) + addresses.length * each;
  return { cluster, local, addresses, cost };
}

/** Returns the endpoints that the last list lacks, in the order of the list. */
function newcomers(
  list: readonly Destination[],
  last: readonly Destination[] = [],
): readonly Destination[] {
  const start = commonStart(list, last);
  const known = new Set(last.slice(start).map(keyOf));
  const rest = list.slice(start);
  return known.size === 0 ? rest : rest.filter((each) => !known.has(keyOf(each)));
}

/** Keeps new endpoints and addresses up to a cost. Above 0, it allows at least one of each. */
function cutPort(
  port: DesiredServicePort,
  { added, most }: { readonly added: Additions; readonly most: number },
): DesiredServicePort {
  const late = new Set<unknown>();
  const postpone = (newcomers: readonly unknown[], cost: number) => {
    const allowed = most === 0 ? 0 : Math.max(1, Math.floor(most / cost));
    for (const each of newcomers.slice(allowed)) late.add(each);
  };
  const held = <T>(list: readonly T[]) => only(list, (each) => !late.has(each));
  const cost = costOfEndpoint(port);
  postpone(added.cluster, cost);
  postpone(added.local, cost);
  const clusterEndpoints = held(port.clusterEndpoints);
  const localEndpoints = held(port.localEndpoints);
  postpone(added.addresses, 1 + clusterEndpoints.length + localEndpoints.length);
  return {
    ...port,
    clusterIPs: held(port.clusterIPs),
    loadBalancerIPs: held(port.loadBalancerIPs),
    externalIPs: held(port.externalIPs),
    nodePort: late.has(`node port ${port.nodePort}`) ? 0 : port.nodePort,
    clusterEndpoints,
    localEndpoints,
  };
}
