/** Keeps the desired state up to date. It computes only Services that a change affects. */
import type { Dirty, ObjectCache, Snapshot } from "../cache/cache.ts";
import type { Family } from "../model/values/address.ts";
import {
  type DesiredNode,
  type DesiredServicePort,
  type DesiredState,
  isExternal,
  type ServiceChange,
  type StateChange,
} from "../model/kernel/desired.ts";
import type { RefusedFeatures, Unsupported } from "../model/kernel/traits.ts";
import type { EndpointSlice, Refusal, Service } from "../model/cluster/objects.ts";
import { atOnce } from "../model/ports/in_turns.ts";
import { append, only } from "../model/values/lists.ts";
import { sameValue } from "../model/values/record.ts";
import { API_SERVICE, type VipId, vipId, vipKeyOf } from "../model/cluster/names.ts";
import { claimsOf, nodePortClaim, type Surroundings, surroundingsOf } from "./service_claims.ts";
import { Claims } from "./claims.ts";
import type { Conflict } from "../model/status.ts";
import { indexPorts } from "./endpoints.ts";
import {
  desiredServicePorts,
  type HealthCheck,
  healthCheckOf,
  withoutLost,
  withoutRefused,
} from "./service.ts";
import { Admission, costOf, limitStep, type OverLimit } from "./limits.ts";
import { desiredNode, type DesiredOptions, nodeAddress } from "./node.ts";

export interface Step {
  readonly change: StateChange;
  readonly conflicts: readonly Conflict[];
  readonly unsupported: readonly Unsupported[];
  readonly overLimit: readonly OverLimit[];
  /** Services with more changes than one step allows. The next step continues with them. */
  readonly unfinished: ReadonlySet<string>;
}

/** The node's facts that Services depend on. If they change, all Services are computed again. */
interface LocalFacts {
  /** `""` if unknown. */
  readonly zone: string;
  readonly addresses: Readonly<Record<Family, string | undefined>>;
}

/** The ports that the objects of an unfinished Service ask for. */
interface Wanted {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
  readonly facts: LocalFacts;
  readonly ports: readonly DesiredServicePort[];
}

const NOTHING: ReadonlySet<string> = new Set();

export class Desired implements DesiredState {
  readonly #services = new Map<string, readonly DesiredServicePort[]>();
  /** The earlier ports of Services whose rules stay unchanged, since lost claims may come back. */
  readonly #frozen = new Map<string, readonly DesiredServicePort[]>();
  /** Services with more changes than one step allows. Their last ports may have addresses without a claim. */
  readonly #unfinished = new Set<string>();
  /** The ports of unfinished Services. They are computed once: a step delays other Services. */
  readonly #wanted = new Map<string, Wanted>();
  readonly #healthChecks = new Map<string, HealthCheck>();
  readonly #claims = new Claims();
  /** Services that lost claims, with the number of conflicts. */
  readonly #losers = new Map<string, number>();
  readonly #unsupported = new Map<string, readonly Unsupported[]>();
  readonly #admission: Admission;
  #surroundings: Surroundings | undefined;
  readonly #refused: RefusedFeatures;
  #node: DesiredNode;
  /** The node of the update in progress. */
  #nextNode: DesiredNode;
  #facts: LocalFacts = { zone: "", addresses: { 4: undefined, 6: undefined } };

  constructor(private readonly options: DesiredOptions) {
    const { signpost } = options.configuration;
    this.#admission = new Admission(signpost.limits, signpost);
    this.#refused = new Map([...options.traits.refuses, ...options.refusedFeatures ?? []]);
    this.#node = desiredNode({ ...options, node: undefined, serviceCIDRs: [] });
    this.#nextNode = this.#node;
  }

  get node(): DesiredNode {
    return this.#node;
  }

  get services(): ReadonlyMap<string, readonly DesiredServicePort[]> {
    return this.#services;
  }

  /** Replaces the ports of Services by the ports that a running daemon keeps for them. */
  hold(kept: Iterable<readonly [service: string, ports: readonly DesiredServicePort[]]>): void {
    for (const [service, ports] of kept) this.#services.set(service, ports);
  }

  get healthChecks(): ReadonlyMap<string, HealthCheck> {
    return this.#healthChecks;
  }

  /** Counts the service ports of a family whose policy is Local and whose endpoints are on other nodes, by policy. */
  noLocal(family: Family): { readonly internal: number; readonly external: number } {
    const counts = { internal: 0, external: 0 };
    for (const ports of this.#services.values()) {
      for (const port of ports) {
        if (port.family !== family || !port.hasEndpoints || port.localEndpoints.length > 0) {
          continue;
        }
        if (port.internalTrafficPolicy === "Local") counts.internal++;
        if (port.externalTrafficPolicy === "Local" && isExternal(port)) counts.external++;
      }
    }
    return counts;
  }

  conflicts(): Conflict[] {
    return [...this.#losers.keys()].flatMap((service) => this.#claims.conflictsOf(service));
  }

  get conflictCount(): number {
    return this.#losers.values().reduce((sum, count) => sum + count, 0);
  }

  unsupported(): Unsupported[] {
    return [...this.#unsupported.values()].flat();
  }

  /** Returns the cost of writing a Service's step, at most: that of its state before or after. */
  costOf(objects: Pick<Snapshot, "services" | "slicesOf">, key: string): number {
    // An unfinished Service takes a share alone, also after its objects were deleted.
    if (this.#unfinished.has(key)) return Infinity;
    const service = objects.services.get(key);
    const after = service === undefined
      ? 0
      : costOf(service, objects.slicesOf(key), this.options.configuration.signpost);
    return Math.max(after, this.#admission.inForce(key)?.cost ?? 0);
  }

  overLimit(): OverLimit[] {
    return [...this.#admission.over.values()];
  }

  /** Applies a change of the objects in one turn. */
  update(objects: Snapshot, changed: Dirty, most?: number): Step {
    return atOnce(this.updating(objects, changed, most));
  }

  /** Applies a change in turns. The objects must not change until the end. @param most elements of a Service's step */
  *updating(
    objects: Snapshot,
    changed: Dirty,
    most = Infinity,
  ): Generator<undefined, Step> {
    const all = changed.node && this.#updateNode(objects);
    const alsoDirty = all ? objects.services : NOTHING;
    const dirty = yield* this.#settleClaims(objects, alsoDirty, changed);
    const services = new Map<string, ServiceChange>();
    const conflicts: Conflict[] = [];
    for (const key of dirty) {
      const lost = this.#claims.conflictsOf(key);
      const { before, after: wanted } = yield* this.#updateService(objects, key, lost);
      // Later stages skip an unchanged list.
      const { ports, isCut } = limitStep(before, {
        wanted,
        most,
        stripped: (port) => this.#withoutTaken(port, key, lost),
      });
      if (isCut) this.#unfinished.add(key);
      else {
        this.#unfinished.delete(key);
        this.#wanted.delete(key);
      }
      const after = sameValue(before, ports) ? before : ports;
      services.set(key, { before, after });
      if (lost.length > 0) this.#losers.set(key, lost.length);
      else this.#losers.delete(key);
      append(conflicts, lost);
      yield;
    }
    // Unfinished Services that wait for a step lose the addresses that other Services hold now.
    for (const key of this.#unfinished.difference(dirty)) {
      const before = this.#services.get(key) ?? [];
      const after = before.map((port) => this.#withoutTaken(port, key));
      if (after.some((port, i) => port !== before[i])) services.set(key, { before, after });
      yield;
    }
    const node = this.#commit(objects, services);
    const unsupported = [...dirty].flatMap((key) => this.#unsupported.get(key) ?? []);
    const overLimit = [...dirty].flatMap((key) => this.#admission.over.get(key) ?? []);
    return {
      change: { node, services },
      conflicts,
      unsupported,
      overLimit,
      unfinished: this.#unfinished,
    };
  }

  /** Returns an earlier port without the addresses that the Service lost, or released to another Service. */
  #withoutTaken(port: DesiredServicePort, service: string, conflicts: readonly Conflict[] = []) {
    const { family, protocol, clusterIPs, loadBalancerIPs, externalIPs, nodePort } = port;
    const isTaken = (id: VipId) => ![undefined, service].includes(this.#claims.holderOf(id));
    const taken = [...clusterIPs, ...loadBalancerIPs, ...externalIPs]
      .map((address) => vipId(address, protocol, port.port))
      .concat(nodePort === 0 ? [] : [nodePortClaim(port, family)])
      .filter(isTaken).map(vipKeyOf);
    const lost = new Set([...taken, ...conflicts.map(({ claim }) => claim)]);
    return lost.size === 0 ? port : withoutLost(port, lost);
  }

  #commit(objects: Snapshot, services: StateChange["services"]): StateChange["node"] {
    for (const [key, { after }] of services) {
      // A deleted Service may keep its rules until its own turn.
      if (after.length > 0 || objects.services.has(key)) this.#services.set(key, after);
      else this.#services.delete(key);
    }
    const [before, after] = [this.#node, this.#nextNode];
    this.#node = after;
    return before === after ? undefined : { before, after };
  }

  /** @returns true if all Services must be computed again */
  #updateNode({ node, serviceCIDRs }: Snapshot): boolean {
    const inputs = { ...this.options, node, serviceCIDRs: [...serviceCIDRs.values()] };
    const after = desiredNode(inputs);
    const facts: LocalFacts = {
      zone: node?.zone ?? "",
      addresses: { 4: nodeAddress(inputs, 4), 6: nodeAddress(inputs, 6) },
    };
    const all = !sameValue(facts, this.#facts);
    if (!sameValue(after, this.#nextNode)) this.#nextNode = after;
    if (all) this.#facts = facts;
    return all;
  }

  *#settleClaims(
    objects: Snapshot,
    alsoDirty: ReadonlySetLike<string>,
    changed: Dirty,
  ): Generator<undefined, ReadonlySet<string>> {
    const serviceOf = (key: string) => this.#serviceOf(objects, key);
    const judged = yield* this.#admission.following(changed.services, { objects, serviceOf });
    const last = this.#surroundings;
    const around = last && !changed.node && !changed.services.has(API_SERVICE)
      ? last
      : surroundingsOf(objects, { desired: this.#nextNode, options: this.options });
    this.#surroundings = around;
    const ownAddresses = new Set(around.ownAddresses);
    const listeners = new Set(around.listeners);
    const affected = new Set<string>();
    const claiming = sameValue(around, last) ? judged : judged.union(objects.services);
    for (const key of claiming) {
      yield;
      const service = this.#admission.inForce(key)?.service;
      const claims = service === undefined ? [] : claimsOf(service, {
        ...around,
        ownAddresses,
        listeners,
        endpoints: () => indexPorts(objects.slicesOf(key)),
      });
      for (const other of this.#claims.set(key, { claims, created: service?.created ?? 0 })) {
        if (!judged.has(other)) affected.add(other);
      }
    }
    return judged.union(affected).union(alsoDirty);
  }

  /** Removes external IPs if they are switched off, as in kube-proxy (CVE-2020-8554). */
  #serviceOf(objects: Snapshot, key: string): Service | undefined {
    const service = objects.services.get(key);
    const off = this.options.configuration.featureGates["AllowServiceExternalIPs"] === false;
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
    const { service, isFrozen } = this.#admission.inForce(key) ?? {};
    const lost = conflicts.length === 0 ? NOTHING : new Set(conflicts.map(({ claim }) => claim));
    if (service === undefined) {
      for (const each of [this.#frozen, this.#unsupported, this.#healthChecks]) each.delete(key);
      return { before, after: [] };
    }
    if (isFrozen) {
      const frozen = this.#frozen.get(key) ?? before;
      this.#frozen.set(key, frozen);
      return { before, after: frozen.map((port) => withoutLost(port, lost)) };
    }
    this.#frozen.delete(key);
    const slices = objects.slicesOf(key);
    const facts = this.#facts;
    const last = this.#wanted.get(key);
    const isSame = last?.service === service && last.facts === facts && lost.size === 0 &&
      last.slices.length === slices.length && last.slices.every((each, i) => each === slices[i]);
    if (isSame) return { before, after: last.ports };
    const { zone, addresses: nodeAddresses } = facts;
    const [{ nodeName }, { ipFamilies, acceleration }] = [this.options, this.#nextNode];
    const endpoints = indexPorts(slices);
    const healthCheck = healthCheckOf(service, { endpoints, nodeName, ipFamilies });
    if (healthCheck) this.#healthChecks.set(key, healthCheck);
    else this.#healthChecks.delete(key);
    const after = yield* desiredServicePorts(service, {
      endpoints,
      place: { nodeName, zone },
      nodeAddresses,
      lost,
      schedulers: this.options.configuration.signpost,
      accelerated: acceleration && this.options.configuration.signpost.acceleration.services,
      previous: before,
    });
    const written = only(after, ({ family }) => ipFamilies.includes(family));
    const { ports, unsupported } = withoutRefused(written, {
      service: key,
      refused: this.#refused,
    });
    if (unsupported.length === 0) this.#unsupported.delete(key);
    else this.#unsupported.set(key, unsupported);
    if (lost.size === 0) this.#wanted.set(key, { service, slices, facts, ports });
    return { before, after: ports };
  }
}

/** A cluster that was read once: the objects, and the state that follows from them for this node. */
export interface State {
  readonly cache: ObjectCache;
  readonly desired: Desired;
  readonly conflicts: readonly Conflict[];
  readonly refused: readonly Refusal[];
  /** Addresses of the API server that sent the objects, as far as known. */
  readonly apiServerAddresses?: readonly string[];
}
