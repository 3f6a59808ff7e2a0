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
import { commonStart, keyOf, portsByKey } from "./endpoints.ts";
import { only } from "../model/values/lists.ts";
import { sameValue } from "../model/values/record.ts";
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

interface StepOptions {
  readonly wanted: readonly DesiredServicePort[];
  /** The most elements that a step adds, and the most that it removes. */
  readonly most: number;
  /** Returns a port of the last step without addresses that other Services hold now. */
  readonly stripped: (port: DesiredServicePort) => DesiredServicePort;
}

interface LimitedStep {
  readonly ports: readonly DesiredServicePort[];
  /** True if the next step must continue. */
  readonly isCut: boolean;
}

/**
 * Limits one step of a Service. If the budget is used up, a port stays as it was, and comes first in the next step.
 * Each other port loses its old endpoints, and gets at least one new endpoint. An unchanged port is the same object.
 */
export function limitStep(
  before: readonly DesiredServicePort[],
  { wanted, most, stripped }: StepOptions,
): LimitedStep {
  if (most === Infinity || movesFrontend([...before, ...wanted])) {
    return { ports: wanted, isCut: false };
  }
  const [old, next] = [portsByKey(before), portsByKey(wanted)];
  let left: Budget = { added: most, removed: most };
  let isCut = false;
  const waiting: DesiredServicePort[] = [];
  const done: DesiredServicePort[] = [];
  for (const key of new Set([...old.keys(), ...next.keys()])) {
    const [last, port] = [old.get(key), next.get(key)];
    if (last && sameValue(last, port)) {
      next.set(key, last);
      done.push(last);
    } else if (last ? left.removed === 0 : left.added === 0) {
      isCut = true;
      if (last) waiting.push(stripped(last));
    } else {
      const change = changeOf(last, port);
      const part = cutPort(change, { left, stripped });
      isCut ||= part !== change.port;
      if (port || part !== change.port) done.push(part);
      left = {
        added: Math.max(0, left.added - change.added.cost),
        removed: Math.max(0, left.removed - change.removed.cost),
      };
    }
  }
  return { ports: isCut ? [...waiting, ...done] : [...next.values()], isCut };
}

/** Returns true if a frontend moves between ports of the Service. Both ports could have it between two steps. */
function movesFrontend(ports: readonly DesiredServicePort[]): boolean {
  const holders = new Map<string, string>();
  return ports.some(({ name, family, protocol, port, nodePort }) =>
    [`port ${port}`, ...nodePort === 0 ? [] : [nodePortName(nodePort)]].some((place) =>
      holders.getOrInsert(`${family} ${protocol} ${place}`, name) !== name
    )
  );
}

/** The elements that a step may still add and remove. */
interface Budget {
  readonly added: number;
  readonly removed: number;
}

type PortChange = ReturnType<typeof changeOf>;

/** Compares a port with its last state. A removed port counts as a port without addresses. */
function changeOf(last: DesiredServicePort | undefined, wanted: DesiredServicePort | undefined) {
  const port = wanted ?? { ...last as DesiredServicePort, ...NO_ADDRESSES };
  return { last, port, added: additions(port, last), removed: removals(port, last) };
}

const NO_ADDRESSES = { clusterIPs: [], loadBalancerIPs: [], externalIPs: [], nodePort: 0 };

function addressesOf(port: DesiredServicePort): readonly string[] {
  const { clusterIPs, loadBalancerIPs, externalIPs, nodePort } = port;
  const all = [...clusterIPs, ...loadBalancerIPs, ...externalIPs];
  return nodePort === 0 ? all : [...all, nodePortName(nodePort)];
}

function nodePortName(nodePort: number): string {
  return `node port ${nodePort}`;
}

function endpointCount(
  port: Pick<DesiredServicePort, "clusterEndpoints" | "localEndpoints">,
): number {
  return port.clusterEndpoints.length + port.localEndpoints.length;
}

function costOfEndpoint(port: DesiredServicePort): number {
  return port.affinitySeconds > 0 ? CHAIN_COST : Math.max(1, addressesOf(port).length);
}

/** Returns the parts of a port that its last state lacks, and their cost in elements. */
function additions(port: DesiredServicePort, last: DesiredServicePort | undefined) {
  const known = new Set(last && addressesOf(last));
  const addresses = addressesOf(port).filter((address) => !known.has(address));
  const cluster = newcomers(port.clusterEndpoints, last?.clusterEndpoints);
  const local = newcomers(port.localEndpoints, last?.localEndpoints);
  const ranges = newRanges(port, last);
  // Each address of a new port is in the cost of its endpoints, which are all new.
  const each = 1 + (last === undefined ? 0 : endpointCount(port));
  const cost = (cluster.length + local.length) * costOfEndpoint(port) + addresses.length * each +
    ranges.length * port.loadBalancerIPs.length;
  return { cluster, local, addresses, ranges, cost };
}

/** Returns the addresses that a port loses. The cost has their elements, and new verdicts of its other addresses. */
function removals(port: DesiredServicePort, last: DesiredServicePort | undefined) {
  if (last === undefined) return { addresses: [], cost: 0 };
  const stays = new Set(addressesOf(port));
  const addresses = addressesOf(last).filter((address) => !stays.has(address));
  return { addresses, cost: addresses.length * (1 + endpointCount(last)) + 2 * stays.size };
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

/** Returns new source ranges that a later step may add: clients in them have no access yet. */
function newRanges(
  { sourceRanges }: DesiredServicePort,
  last: DesiredServicePort | undefined,
): readonly string[] {
  if (last === undefined || last.loadBalancerIPs.length === 0) return sourceRanges;
  const known = new Set(last.sourceRanges);
  const isGrowing = known.size > 0 && known.isSubsetOf(new Set(sourceRanges));
  return isGrowing ? sourceRanges.filter((each) => !known.has(each)) : [];
}

/**
 * Removes addresses up to the budget. Only the step after the last removal adds parts, at least one of each kind: old
 * addresses with new endpoints could cost more than a Service may. @returns the port itself if all parts fit
 */
function cutPort(
  { last, port, added, removed }: PortChange,
  { left, stripped }: { readonly left: Budget } & Pick<StepOptions, "stripped">,
): DesiredServicePort {
  if (added.cost <= left.added && removed.cost <= left.removed) return port;
  const allowed = (cost: number, most: number) => Math.max(1, Math.floor(most / cost));
  if (last) {
    const gone = removed.addresses.slice(0, allowed(1 + endpointCount(last), left.removed));
    if (gone.length < removed.addresses.length) return stripped(withoutAddresses(last, gone));
  }
  const late = new Set<unknown>();
  const postpone = (parts: readonly unknown[], cost: number) => {
    for (const each of parts.slice(allowed(cost, left.added))) late.add(each);
  };
  const held = <T>(list: readonly T[]) => only(list, (each) => !late.has(each));
  const cost = costOfEndpoint(port);
  postpone(added.cluster, cost);
  postpone(added.local, cost);
  postpone(added.ranges, port.loadBalancerIPs.length);
  const parts = {
    clusterEndpoints: held(port.clusterEndpoints),
    localEndpoints: held(port.localEndpoints),
    sourceRanges: held(port.sourceRanges),
  };
  const lateAddresses = added.addresses.slice(allowed(1 + endpointCount(parts), left.added));
  if (late.size + lateAddresses.length === 0) return port;
  return { ...withoutAddresses(port, lateAddresses), ...parts };
}

/** @param addresses as `addressesOf` names them */
function withoutAddresses(
  port: DesiredServicePort,
  addresses: readonly string[],
): DesiredServicePort {
  const { clusterIPs, loadBalancerIPs, externalIPs, nodePort } = port;
  const without = new Set(addresses);
  const isHeld = (address: string) => !without.has(address);
  return {
    ...port,
    clusterIPs: only(clusterIPs, isHeld),
    loadBalancerIPs: only(loadBalancerIPs, isHeld),
    externalIPs: only(externalIPs, isHeld),
    nodePort: isHeld(nodePortName(nodePort)) ? nodePort : 0,
  };
}
