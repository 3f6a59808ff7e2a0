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
import type { Limits, Size } from "../model/configuration.ts";
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
interface Admitted extends Readonly<Size> {
  readonly service: Service;
}

const WHAT: readonly (readonly [keyof Size, words: string, flag: string])[] = [
  ["frontends", "frontends (each address with each port, and node ports)", "frontends"],
  ["elements", "elements in the kernel (frontends with endpoints and source ranges)", "elements"],
  ["sourceRanges", "source ranges", "source-ranges"],
  [
    "affinityChains",
    "chains (for session affinity ports with endpoints, for round-robin ports)",
    "affinity-chains",
  ],
];
/** Services that are judged at one go. */
const BATCH = 25;
const NOTHING: Readonly<Size> = { frontends: 0, elements: 0, sourceRanges: 0, affinityChains: 0 };

/**
 * What a Service asks of the node at most: every endpoint counts, ready or not. The work is linear in
 * the number of its addresses, ports and slices.
 */
export function sizeOf(
  service: Service,
  slices: readonly EndpointSlice[],
  schedulers: SchedulerDefaults,
): Size {
  const scheduler = schedulerOf(service.scheduler ?? ANY_SCHEDULER, schedulers);
  const endpoints = { 4: 0, 6: 0 };
  for (const slice of slices) endpoints[slice.family] += slice.endpoints.length;
  const count = { ...NOTHING, sourceRanges: service.sourceRanges.length };
  const nodePorts = service.ports.filter(({ nodePort }) => nodePort !== 0).length;
  for (const family of familiesOf(service)) {
    const ofFamily = (list: readonly string[]) =>
      list.reduce((sum, each) => sum + (familyOf(each) === family ? 1 : 0), 0);
    const balanced = ofFamily(service.loadBalancerIPs);
    const addresses = ofFamily(service.clusterIPs) + balanced + ofFamily(service.externalIPs);
    const ports = service.ports.length;
    const frontends = addresses * ports + nodePorts;
    count.frontends += frontends;
    count.elements += frontends * (1 + slotsFor(endpoints[family], scheduler)) +
      (balanced === 0 ? 0 : balanced * ports * ofFamily(service.sourceRanges));
    if (service.affinitySeconds > 0) count.affinityChains += ports * endpoints[family];
    else if (needsOf(scheduler).ownChains) count.affinityChains += ports;
  }
  return count;
}

/** Which Services are within the limits. */
export class Admission {
  readonly #limits: Limits;
  readonly #schedulers: SchedulerDefaults;
  readonly #admitted = new Map<string, Admitted>();
  readonly #totals = new Map<string, Size>();
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
      const size = sizeOf(candidate, slices, this.#schedulers);
      const over = this.#excess(key, size, candidate.namespace);
      if (over === undefined) return this.#admit(key, admitted(candidate, size));
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

  #excess(key: string, size: Size, namespace: string): OverLimit | undefined {
    const total = this.#totals.get(namespace) ?? NOTHING;
    const own = this.#admitted.get(key) ?? NOTHING;
    for (const [what, words, flag] of WHAT) {
      const [service, all] = [this.#limits.service[what], this.#limits.namespace[what]];
      const sum = total[what] - own[what] + size[what];
      // What grows no further is no reason to refuse a change.
      const isGrowth = size[what] > own[what];
      if (size[what] > service) {
        return over(key, `--max-service-${flag}`, {
          asks: `it asks for ${grouped(size[what])} ${words}`,
          limit: `one Service may have ${grouped(service)}`,
        });
      }
      if (isGrowth && sum > all) {
        return over(key, `--max-namespace-${flag}`, {
          asks: `with it, namespace ${namespace} asks for ${grouped(sum)} ${words}`,
          limit: `one namespace may have ${grouped(all)}`,
        });
      }
    }
    return undefined;
  }

  #admit(key: string, state: Admitted): void {
    this.#count(key, state);
    this.#admitted.set(key, state);
  }

  #release(key: string): void {
    this.#count(key, NOTHING);
    this.#admitted.delete(key);
  }

  /** Replaces a Service's part of its namespace's total. */
  #count(key: string, size: Size): void {
    const { namespace } = splitKey(key);
    const before = this.#admitted.get(key) ?? NOTHING;
    const total = this.#totals.get(namespace) ?? { ...NOTHING };
    for (const [what] of WHAT) {
      total[what] += size[what] - before[what];
      if (size[what] < before[what]) this.#shrunk.add(namespace);
    }
    if (WHAT.every(([what]) => total[what] === 0)) this.#totals.delete(namespace);
    else this.#totals.set(namespace, total);
  }
}

/** Named one by one: V8 has fields of a spread in an object of their own, for each Service. */
function admitted(
  service: Service,
  { frontends, elements, sourceRanges, affinityChains }: Size,
): Admitted {
  return { service, frontends, elements, sourceRanges, affinityChains };
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
