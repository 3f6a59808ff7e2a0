/**
 * Keeps the desired state current: only the Services that a change touches are worked out again.
 *
 * @module
 */
import type { Dirty, Snapshot } from "../cache/cache.ts";
import type { Family } from "../model/values/address.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
  ServiceChange,
  StateChange,
  StreamedState,
} from "../model/kernel/desired.ts";
import type { RefusedFeatures, Unsupported } from "../model/kernel/features.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import type { Service } from "../model/cluster/objects.ts";
import { atOnce, copying, resultOf, sorting } from "../model/ports/in_turns.ts";
import { endpointCount } from "../model/kernel/port_endpoints.ts";
import { only, union } from "../model/values/lists.ts";
import { sameValue } from "../model/values/same_value.ts";
import { claimsOf } from "./claimed.ts";
import { Claims, type Conflict } from "./claims.ts";
import { indexPorts, slicesOf } from "./endpoints.ts";
import { withoutRefused } from "./features.ts";
import { type HealthCheck, healthCheckOf } from "./health_check.ts";
import { limitGrowth } from "./growth.ts";
import { Admission, costOf, type OverLimit } from "./limits.ts";
import { followNoLocal, type NoLocal, noLocalCounts } from "./no_local.ts";
import { desiredNode, nodeAddress } from "./node.ts";
import { desiredServicePorts, withoutLost } from "./service.ts";
import { SurroundingsFollower, type SurroundingsOptions } from "./surroundings.ts";

/** Settings that hold for the life of the process. */
export interface DesiredOptions extends SurroundingsOptions {
  /** Of the mode that is in effect. */
  readonly traits: ModeTraits;
  readonly nodeName: string;
  /** The families that rules are written for; all where not given. */
  readonly ipFamilies?: readonly Family[];
  /** Features that nft or the kernel refuses: Services that need them are refused. */
  readonly refusedFeatures?: RefusedFeatures;
  /** Those of this machine's addresses that are its own for other reasons than being virtual IPs. */
  readonly interfaceAddresses?: () => readonly string[];
}

/** One step of the desired state. */
export interface Step {
  readonly change: StateChange;
  /** Conflicts over addresses and ports among the Services of this step. */
  readonly conflicts: readonly Conflict[];
  /** Services of this step that need what nft or the kernel refuses. */
  readonly unsupported: readonly Unsupported[];
  /** Those of this step's Services that are over a limit. */
  readonly overLimit: readonly OverLimit[];
  /** Services that grow by more than one step may add: the next step goes on. */
  readonly growing: ReadonlySet<string>;
}

/** A step to a first state, whose Services come as they are worked out. */
export interface StreamedStep extends StreamedState {
  /** Ends with the step; the desired state is the one after it then. */
  readonly services: Working;
}

/** `undefined` where other work can be done. */
type Keys = Iterable<string | undefined>;
type Working = Generator<readonly DesiredServicePort[] | undefined, Step>;
type Changes = StateChange["services"];

/** All that Services depend on of the node; where it changes, each is worked out again. */
interface NodeFacts {
  /** `""`: not known. */
  readonly zone: string;
  /** The node's own address of each family. */
  readonly addresses: Readonly<Record<Family, string | undefined>>;
}

/** Services that claim at one go. */
const BATCH = 25;
/** Those that become the desired state at one go, at most; more take a copy of it. */
const MOST_TAKEN = 5_000;
/** Those that are worked out at one go; an endpoint takes a tenth of the time of a Service. */
const BATCH_WEIGHT = 20;
const ENDPOINT_WEIGHT = 0.1;

/** Shared by all Services that hold what they claim. */
const NOTHING: ReadonlySet<string> = new Set();

/** The desired state with the indexes that it takes to follow changes. */
export class Desired implements DesiredState {
  readonly #options: DesiredOptions;
  #services = new Map<string, readonly DesiredServicePort[]>();
  /** Of Services whose rules stay as they are, the ports of before: what others have taken may come back. */
  readonly #frozen = new Map<string, readonly DesiredServicePort[]>();
  readonly #healthChecks = new Map<string, HealthCheck>();
  readonly #claims = new Claims();
  /** Services that did not get all that they claim, with the number of their conflicts. */
  readonly #losers = new Map<string, number>();
  #conflictCount = 0;
  readonly #unsupported = new Map<string, readonly Unsupported[]>();
  readonly #admission: Admission;
  readonly #surroundings: SurroundingsFollower;
  readonly #refused: RefusedFeatures;
  readonly #noLocal = { 4: noLocalCounts(), 6: noLocalCounts() };
  #node: DesiredNode;
  /** Of the update that is under way. */
  #nextNode: DesiredNode;
  #facts: NodeFacts = { zone: "", addresses: { 4: undefined, 6: undefined } };
  /** This machine's addresses and ports, as of the last step. */
  #around: readonly unknown[] = [];

  /** @param options the configuration and who this node is */
  constructor(options: DesiredOptions) {
    this.#options = options;
    const { signpost } = options.configuration;
    this.#admission = new Admission(signpost.limits, signpost);
    this.#refused = new Map([...options.traits.refuses, ...options.refusedFeatures ?? []]);
    this.#node = desiredNode({ ...options, node: undefined, serviceCIDRs: [] });
    this.#nextNode = this.#node;
    this.#surroundings = new SurroundingsFollower(options);
  }

  /** @inheritdoc */
  get node(): DesiredNode {
    return this.#node;
  }

  /** @inheritdoc */
  get services(): ReadonlyMap<string, readonly DesiredServicePort[]> {
    return this.#services;
  }

  /** By `namespace/name`, what the health-check node ports of Services tell. */
  get healthChecks(): ReadonlyMap<string, HealthCheck> {
    return this.#healthChecks;
  }

  /** As of the last step, how many service ports find no local endpoint. */
  get noLocal(): Readonly<Record<Family, NoLocal>> {
    return this.#noLocal;
  }

  /** Conflicts of all Services. */
  conflicts(): Conflict[] {
    const losers = [...this.#services.keys()].filter((service) => this.#losers.has(service));
    return losers.flatMap((service) => this.#claims.conflictsOf(service));
  }

  /** The number of conflicts of all Services, counted as they are worked out. */
  get conflictCount(): number {
    return this.#conflictCount;
  }

  /** Services that need what nft or the kernel refuses. */
  unsupported(): Unsupported[] {
    return [...this.#unsupported.values()].flat();
  }

  /** Returns the cost of writing a Service's step, at most: that of its state before or after. */
  costOf(objects: Pick<Snapshot, "services" | "slicesOf">, key: string): number {
    const service = objects.services.get(key);
    const after = service === undefined
      ? 0
      : costOf(service, objects.slicesOf(key), this.#options.configuration.signpost);
    return Math.max(after, this.#admission.costInForce(key));
  }

  /** All Services that are over a limit. */
  overLimit(): OverLimit[] {
    return [...this.#admission.over.values()];
  }

  /** Follows a change of the objects, at one go. */
  update(objects: Snapshot, changed: Dirty, growth?: number): Step {
    return atOnce(this.updating(objects, changed, growth));
  }

  /**
   * The same in turns. Meanwhile the objects must not change, and `node` and `services` are those of
   * before. What is small takes one turn.
   *
   * @param growth elements that one Service may add in this step
   * @yields where other work can be done
   */
  *updating(
    objects: Snapshot,
    changed: Dirty,
    growth = Infinity,
  ): Generator<undefined, Step> {
    const dirty = yield* this.#settle(objects, changed);
    return yield* resultOf(this.#workOut(objects, dirty, growth));
  }

  /**
   * The same where there are no Services yet.
   *
   * @yields where other work can be done
   */
  *streaming(objects: Snapshot, changed: Dirty): Generator<undefined, StreamedStep> {
    const dirty = yield* this.#settle(objects, changed);
    const services = this.#workOut(objects, sorting(dirty, (a, b) => a < b ? -1 : 1));
    return { node: this.#nextNode, size: objects.services.size, services };
  }

  /** Follows what is not of one Service alone. @returns the Services that have to be worked out */
  *#settle(objects: Snapshot, changed: Dirty): Generator<undefined, Keys> {
    const { interfaceAddresses, ownPorts } = this.#options;
    const around = [interfaceAddresses?.(), ownPorts?.()];
    const moved = around.some((each, i) => each !== this.#around[i]);
    this.#around = around;
    const all = (changed.node || moved) && this.#updateNode(objects);
    const alsoDirty = all ? objects.services.keys() : [];
    return yield* this.#settleClaims(objects, alsoDirty, changed.services);
  }

  /** Works Services out, gives the ports of each that there is, and makes all of it the desired state. */
  *#workOut(objects: Snapshot, dirty: Keys, growth = Infinity): Working {
    const services = new Map<string, ServiceChange>();
    const conflicts: Conflict[] = [];
    const overLimit: OverLimit[] = [];
    const unsupported: Unsupported[] = [];
    const growing = new Set<string>();
    let weight = 0;
    for (const key of dirty) {
      if (key === undefined) {
        yield;
        continue;
      }
      const lost = this.#claims.conflictsOf(key);
      const { before, after: wanted } = yield* this.#updateService(objects, key, lost);
      // What is the same object costs those who follow nothing.
      const grown = limitGrowth(before, { wanted, most: growth });
      if (grown !== wanted) growing.add(key);
      const after = sameValue(before, grown) ? before : grown;
      services.set(key, { before, after });
      this.#conflictCount += lost.length - (this.#losers.get(key) ?? 0);
      if (lost.length > 0) this.#losers.set(key, lost.length);
      else this.#losers.delete(key);
      followNoLocal(this.#noLocal, { before, after });
      for (const conflict of lost) conflicts.push(conflict);
      for (const each of this.#unsupported.get(key) ?? []) unsupported.push(each);
      const over = this.#admission.over.get(key);
      if (over) overLimit.push(over);
      if (objects.services.has(key)) yield after;
      weight += 1 + ENDPOINT_WEIGHT * endpointCount(after);
      if (weight < BATCH_WEIGHT) continue;
      yield;
      weight = 0;
    }
    if (services.size > BATCH) yield;
    const node = yield* this.#commit(objects, services);
    return { change: { node, services }, conflicts, unsupported, overLimit, growing };
  }

  /** Makes what was worked out the desired state: many Services in a copy, in turns, which then takes its place. */
  *#commit(objects: Snapshot, services: Changes): Generator<undefined, StateChange["node"]> {
    const isLong = services.size > MOST_TAKEN;
    const all = isLong ? yield* copying(this.#services) : this.#services;
    let count = 0;
    for (const [key, { after }] of services) {
      if (objects.services.has(key)) all.set(key, after);
      else all.delete(key);
      if (isLong && ++count % BATCH === 0) yield;
    }
    this.#services = all;
    const [before, after] = [this.#node, this.#nextNode];
    this.#node = after;
    return before === after ? undefined : { before, after };
  }

  /** @returns whether all Services have to be worked out again */
  #updateNode({ node, serviceCIDRs }: Snapshot): boolean {
    const inputs = { ...this.#options, node, serviceCIDRs: [...serviceCIDRs.values()] };
    const after = desiredNode(inputs);
    const facts: NodeFacts = {
      zone: node?.zone ?? "",
      addresses: { 4: nodeAddress(inputs, 4), 6: nodeAddress(inputs, 6) },
    };
    const all = !sameValue(facts, this.#facts);
    if (!sameValue(after, this.#nextNode)) this.#nextNode = after;
    this.#facts = facts;
    return all;
  }

  /** Brings the claims up to date and returns all Services that have to be worked out. */
  *#settleClaims(
    objects: Snapshot,
    alsoDirty: Iterable<string>,
    changed: ReadonlySet<string>,
  ): Generator<undefined, Keys> {
    const serviceOf = (key: string) => this.#serviceOf(objects, key);
    const judged = yield* this.#admission.following(changed, { objects, serviceOf });
    const around = this.#surroundings.update(objects, this.#nextNode);
    const affected = new Set<string>();
    let count = 0;
    for (const key of around.isNew ? union(judged, objects.services.keys()) : judged) {
      if (++count % BATCH === 0 || key === undefined) yield;
      if (key === undefined) continue;
      const service = this.#admission.inForce(key);
      const claims = service === undefined ? [] : claimsOf(service, {
        ...around.surroundings,
        endpoints: () => indexPorts(slicesOf(objects, key)),
      });
      for (const other of this.#claims.set(key, { claims, created: service?.created ?? 0 })) {
        if (!judged.has(other)) affected.add(other);
      }
    }
    return union(judged, union(affected, alsoDirty));
  }

  /** External IPs can be switched off as in kube-proxy (CVE-2020-8554: any user may claim any address). */
  #serviceOf(objects: Snapshot, key: string): Service | undefined {
    const service = objects.services.get(key);
    const off = this.#options.configuration.featureGates["AllowServiceExternalIPs"] === false;
    return service && off && service.externalIPs.length > 0
      ? { ...service, externalIPs: [] }
      : service;
  }

  *#updateService(
    objects: Snapshot,
    key: string,
    conflicts: readonly Conflict[],
  ): Generator<undefined, ServiceChange> {
    const before = this.#services.get(key) ?? [];
    const service = this.#admission.inForce(key);
    const lost = conflicts.length === 0 ? NOTHING : new Set(conflicts.map(({ claim }) => claim));
    if (service === undefined) {
      for (const each of [this.#frozen, this.#unsupported, this.#healthChecks]) each.delete(key);
      return { before, after: [] };
    }
    if (this.#admission.isFrozen(key)) {
      const frozen = this.#frozen.get(key) ?? before;
      this.#frozen.set(key, frozen);
      return { before, after: frozen.map((port) => withoutLost(port, lost)) };
    }
    this.#frozen.delete(key);
    const { zone, addresses: nodeAddresses } = this.#facts;
    const [{ nodeName }, { ipFamilies }] = [this.#options, this.#nextNode];
    const endpoints = indexPorts(slicesOf(objects, key));
    const healthCheck = healthCheckOf(service, { endpoints, nodeName, ipFamilies });
    if (healthCheck) this.#healthChecks.set(key, healthCheck);
    else this.#healthChecks.delete(key);
    const after = yield* desiredServicePorts(service, {
      endpoints,
      place: { nodeName, zone },
      nodeAddresses,
      lost,
      schedulers: this.#options.configuration.signpost,
      previous: before,
    });
    const written = only(after, ({ family }) => ipFamilies.includes(family));
    const { ports, unsupported } = withoutRefused(written, {
      service: key,
      refused: this.#refused,
    });
    if (unsupported.length === 0) this.#unsupported.delete(key);
    else this.#unsupported.set(key, unsupported);
    return { before, after: ports };
  }
}
