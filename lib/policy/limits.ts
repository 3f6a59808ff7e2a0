/**
 * Limits for what one Service and one namespace may ask of every node.
 *
 * A Service over a limit is refused by itself, as a malformed object is: its last state that was
 * within the limits stays in force. Where endpoints alone have grown too many, its rules stay as they
 * are. One that never was within the limits has no rules.
 *
 * @module
 */
import { familyOf } from "../model/values/address.ts";
import type { Snapshot } from "../cache/cache.ts";
import { splitKey } from "../model/cluster/names.ts";
import type { Limits } from "../model/configuration.ts";
import type { Refusal } from "../model/cluster/events.ts";
import type { EndpointSlice, Service } from "../model/cluster/objects.ts";
import { sorting } from "../model/ports/in_turns.ts";
import { withAll } from "../model/values/lists.ts";
import { grouped } from "../model/values/text.ts";
import {
  ANY_SCHEDULER,
  needsOf,
  type SchedulerDefaults,
  schedulerOf,
  slotsFor,
} from "../model/cluster/scheduler.ts";
import { familiesOf } from "./claimed.ts";

/** A Service over a limit. */
export interface OverLimit extends Refusal {
  readonly kind: "Service";
  /** The setting that names the limit. */
  readonly limit: string;
}

/** A Service, if there is one, with its `namespace/name`. */
export interface NamedService {
  readonly key: string;
  readonly service: Service | undefined;
}

/** A state of a Service that is within the limits. */
interface Admitted {
  readonly service: Service;
  readonly cost: number;
}

/** Services that are judged between two yields. */
const BATCH = 25;
/**
 * The cost of one chain. 5,000 chains add 60 ms to every transaction (kernel 6.18), 100,000 elements
 * take 0.3 s once.
 */
export const CHAIN_COST = 20;

/**
 * Returns the cost of a Service for every node, in elements: frontends with their endpoints and source
 * ranges, ports, slice ports, and chains by their weight. Every endpoint counts, ready or not. The work
 * is linear in the number of addresses, ports and slices.
 */
export function costOf(
  service: Service,
  slices: readonly EndpointSlice[],
  schedulers: SchedulerDefaults,
): number {
  const scheduler = schedulerOf(service.scheduler ?? ANY_SCHEDULER, schedulers);
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
    else if (needsOf(scheduler).ownChains) cost += CHAIN_COST * ports;
  }
  return cost;
}

/** Decides which Services are within the limits. */
export class Admission {
  readonly #limits: Limits;
  readonly #schedulers: SchedulerDefaults;
  readonly #admitted = new Map<string, Admitted>();
  /** The cost of each namespace. */
  readonly #totals = new Map<string, number>();
  readonly #over = new Map<string, OverLimit>();
  /** Services whose rules stay as they are. */
  readonly #frozen = new Set<string>();
  /** Namespaces that ask for less than before. */
  #shrunk = new Set<string>();

  /**
   * @param limits what is too much
   * @param schedulers what holds where a Service does not say
   */
  constructor(limits: Limits, schedulers: SchedulerDefaults) {
    this.#limits = limits;
    this.#schedulers = schedulers;
  }

  /** The state of a Service that is in force; `undefined`: none, it has no rules. */
  inForce(key: string): Service | undefined {
    return this.#admitted.get(key)?.service;
  }

  /** Returns the cost of the state that is in force; 0: there is none. */
  costInForce(key: string): number {
    return this.#admitted.get(key)?.cost ?? 0;
  }

  /** Whether the rules of a Service stay as they are, whatever its endpoints do. */
  isFrozen(key: string): boolean {
    return this.#frozen.has(key);
  }

  /** Services over a limit. */
  get over(): ReadonlyMap<string, OverLimit> {
    return this.#over;
  }

  /**
   * Judges what has changed, and then what may fit now.
   *
   * @param changed `namespace/name` of Services
   * @yields where other work can be done
   * @returns all that were judged
   */
  *following(
    changed: ReadonlySet<string>,
    { objects, serviceOf }: {
      readonly objects: Pick<Snapshot, "slicesOf">;
      readonly serviceOf: (key: string) => Service | undefined;
    },
  ): Generator<undefined, ReadonlySet<string>> {
    const named = function* (keys: Iterable<string>) {
      for (const key of keys) yield { key, service: serviceOf(key) };
    };
    yield* this.judging(named(changed), objects);
    const retries = this.takeRetries();
    if (retries.length === 0) return changed;
    yield* this.judging(named(retries), objects);
    return withAll(changed, retries);
  }

  /**
   * Judges Services that are new or have changed, or have gone: the oldest first, then the first by name.
   *
   * @yields where other work can be done
   */
  *judging(
    services: Iterable<NamedService>,
    objects: Pick<Snapshot, "slicesOf">,
  ): Generator<undefined, void> {
    let count = 0;
    for (const each of sorting(services, olderFirst)) {
      if (each) this.#judge(each, objects.slicesOf(each.key));
      if (!each || ++count % BATCH === 0) yield;
    }
  }

  #judge({ key, service }: NamedService, slices: readonly EndpointSlice[]): void {
    this.#over.delete(key);
    this.#frozen.delete(key);
    const last = this.#admitted.get(key);
    if (service === undefined) return this.#release(key);
    for (
      const candidate of last && last.service !== service ? [service, last.service] : [service]
    ) {
      const cost = costOf(candidate, slices, this.#schedulers);
      const over = this.#excess(key, cost, candidate.namespace);
      if (over === undefined) return this.#admit(key, { service: candidate, cost });
      if (!this.#over.has(key)) this.#over.set(key, over);
    }
    if (last) this.#frozen.add(key);
  }

  /** Services over a limit that may be within it now that others of their namespace ask for less. */
  takeRetries(): string[] {
    if (this.#shrunk.size === 0) return [];
    const shrunk = this.#shrunk;
    this.#shrunk = new Set();
    return [...this.#over.keys()].filter((key) => shrunk.has(splitKey(key).namespace));
  }

  #excess(key: string, cost: number, namespace: string): OverLimit | undefined {
    const own = this.#admitted.get(key)?.cost ?? 0;
    const sum = (this.#totals.get(namespace) ?? 0) - own + cost;
    const limits = this.#limits;
    if (cost > limits.service) {
      return over(key, "--max-service-cost", {
        asks: `it costs ${grouped(cost)} elements (its frontends with their endpoints, and ports)`,
        limit: `one Service may cost ${grouped(limits.service)}`,
      });
    }
    // A change that costs no more than before is never refused.
    if (cost <= own || sum <= limits.namespace) return undefined;
    return over(key, "--max-namespace-cost", {
      asks: `with it, namespace ${namespace} costs ${grouped(sum)} elements`,
      limit: `one namespace may cost ${grouped(limits.namespace)}`,
    });
  }

  #admit(key: string, state: Admitted): void {
    this.#count(key, state.cost);
    this.#admitted.set(key, state);
  }

  #release(key: string): void {
    this.#count(key, 0);
    this.#admitted.delete(key);
  }

  /** Replaces a Service's part of its namespace's cost. */
  #count(key: string, cost: number): void {
    const { namespace } = splitKey(key);
    const before = this.#admitted.get(key)?.cost ?? 0;
    const total = (this.#totals.get(namespace) ?? 0) + cost - before;
    if (cost < before) this.#shrunk.add(namespace);
    if (total === 0) this.#totals.delete(namespace);
    else this.#totals.set(namespace, total);
  }
}

function olderFirst(a: NamedService, b: NamedService): number {
  const age = (a.service?.created ?? 0) - (b.service?.created ?? 0);
  return age !== 0 ? age : a.key < b.key ? -1 : 1;
}

function over(
  key: string,
  limit: string,
  texts: { readonly asks: string; readonly limit: string },
): OverLimit {
  return {
    kind: "Service",
    key,
    limit,
    reason: `${texts.asks}, ${texts.limit} (${limit}): ask for less, or raise the limit`,
  };
}
