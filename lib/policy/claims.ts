/**
 * Which Service holds a virtual IP or node port that several Services ask for.
 *
 * The kind of address comes first, for it says who wrote it: the API server allocates cluster IPs
 * and node ports, a controller writes load-balancer IPs, any user may list external IPs. Among
 * claims of one kind the oldest Service comes first, then the first by name. The others get it when
 * the holder lets go.
 *
 * @module
 */
import { type VipId, vipKeyOf } from "../model/cluster/names.ts";
import { placeOf } from "../model/values/lists.ts";

/** What a Service asks for with a claim. */
export type ClaimType = "clusterIP" | "nodePort" | "loadBalancerIP" | "externalIP";

/** What has an address and port before any Service asks for it. */
export interface Reservation {
  /** In words: `the API server`. */
  readonly holder: string;
  /** Why it has it, as the end of a sentence. */
  readonly because: string;
}

/** A TCP port that the daemon needs itself: no Service becomes a frontend there. */
export interface OwnPort extends Reservation {
  /** The API server's, not a port of this process. */
  readonly isApiServer: boolean;
  /** Canonical; `undefined`: every address of this node. */
  readonly address: string | undefined;
  readonly port: number;
}

/** Something that only one Service can have. */
export interface Claim {
  /** `vipId`, `nodePortClaim` or `balancerClaim`. */
  readonly key: VipId;
  readonly type: ClaimType;
  /** Another claim: if another Service holds that one, this claim is lost. */
  readonly unless?: string;
  /** Services may share it: it only takes the claims that name it in `unless`. */
  readonly isShared?: true;
  /** No Service gets it. */
  readonly reserved?: Reservation;
}

/** An address and port, or a node port, that a Service asks for and does not get. */
export interface Conflict {
  /** What is asked for, as `address . protocol . port` or `node port protocol . port`. */
  readonly claim: string;
  /** `namespace/name` of the Service that has it; where none has, what else does, in words. */
  readonly holder: string;
  /** `namespace/name` of the Service that does not. */
  readonly loser: string;
  /** Why the holder comes first, as the end of a sentence. */
  readonly because: string;
}

/** A claim and the Service that makes it. */
interface Claimant extends Claim {
  /** `namespace/name`. */
  readonly service: string;
  readonly created: number;
}

const NAMES: Readonly<Record<ClaimType, string>> = {
  clusterIP: "a cluster IP",
  nodePort: "a node port",
  loadBalancerIP: "a load-balancer IP",
  externalIP: "an external IP",
};
const ORDER: readonly ClaimType[] = ["clusterIP", "nodePort", "loadBalancerIP", "externalIP"];
const NO_SERVICES: ReadonlySet<string> = new Set();

/** All claims of all Services. */
export class Claims {
  readonly #holders = new Map<VipId, Claimant>();
  /** By claim, who waits for it, the next holder first. */
  readonly #waiting = new Map<VipId, Claimant[]>();
  /** By claim, the claims that name it in `unless`. */
  readonly #dependents = new Map<VipId, Set<Claimant>>();
  readonly #byService = new Map<string, readonly Claimant[]>();
  /** Claims that may be lost though no other one is for the same. */
  #conditional = 0;

  /**
   * Replaces what a Service asks for. The work follows what changes, not the number of claimants.
   *
   * @param service `namespace/name`
   * @param options `claims`: all that it asks for, empty when it is gone; `created`: its age
   * @returns Services that may have gained or lost something by this, itself included
   */
  set(
    service: string,
    { claims, created }: { readonly claims: readonly Claim[]; readonly created: number },
  ): ReadonlySet<string> {
    const before = this.#byService.get(service) ?? [];
    if (isSame(before, claims, created)) return NO_SERVICES;
    const affected = new Set([service]);
    const wanted = new Map<VipId, Claim>();
    for (const claim of claims) if (!wanted.has(claim.key)) wanted.set(claim.key, claim);
    const kept = new Map<VipId, Claimant>();
    for (const claimant of before) {
      const claim = wanted.get(claimant.key);
      if (claim && claimant.created === created && isEqual(claimant, claim)) {
        kept.set(claim.key, claimant);
      } else this.#remove(claimant, affected);
    }
    const after = [...wanted.values()].map((claim) =>
      kept.get(claim.key) ?? this.#add(claimant({ service, created }, claim), affected)
    );
    if (after.length === 0) this.#byService.delete(service);
    else this.#byService.set(service, after);
    return affected;
  }

  /** What a Service asked for and did not get. */
  conflictsOf(service: string): Conflict[] {
    const conflicts: Conflict[] = [];
    if (this.#waiting.size === 0 && this.#conditional === 0) return conflicts;
    for (const claimant of this.#byService.get(service) ?? []) {
      if (claimant.isShared) continue;
      const winner = this.#winnerOver(claimant);
      if (winner) conflicts.push({ claim: vipKeyOf(claimant.key), ...winner, loser: service });
    }
    return conflicts;
  }

  #winnerOver(claimant: Claimant): Pick<Conflict, "holder" | "because"> | undefined {
    const { reserved, key } = claimant;
    const holder = this.#holders.get(key);
    const other = holder !== claimant && holder?.reserved === undefined
      ? holder
      : this.#holderBefore(claimant);
    if (other === undefined) return reserved;
    return { holder: other.service, because: reasonOf(other, claimant) };
  }

  /** Returns the other Service that holds what a claim names in `unless`. */
  #holderBefore({ unless, service }: Claimant): Claimant | undefined {
    if (unless === undefined) return undefined;
    const holder = this.#holders.get(unless);
    const isOther = holder !== undefined && holder.service !== service;
    return isOther && holder.reserved === undefined ? holder : undefined;
  }

  #add(claimant: Claimant, affected: Set<string>): Claimant {
    const { key, unless } = claimant;
    const holder = this.#holders.get(key);
    this.#count(claimant, 1);
    if (unless !== undefined) addTo(this.#dependents, unless, claimant);
    if (holder && compare(holder, claimant) < 0) this.#wait(key, claimant);
    else {
      this.#holders.set(key, claimant);
      if (holder) this.#wait(key, holder);
      this.#changed(key, affected, holder);
    }
    return claimant;
  }

  #remove(claimant: Claimant, affected: Set<string>): void {
    const { key, unless } = claimant;
    this.#count(claimant, -1);
    if (unless !== undefined) deleteFrom(this.#dependents, unless, claimant);
    const waiting = this.#waiting.get(key) ?? [];
    if (this.#holders.get(key) === claimant) {
      const next = waiting.shift();
      if (next) this.#holders.set(key, next);
      else this.#holders.delete(key);
      this.#changed(key, affected, next);
    } else waiting.splice(placeOf(claimant, waiting, compare), 1);
    if (waiting.length === 0) this.#waiting.delete(key);
  }

  #count({ unless, reserved }: Claimant, more: 1 | -1): void {
    if (unless !== undefined || reserved) this.#conditional += more;
  }

  #wait(key: VipId, claimant: Claimant): void {
    const waiting = this.#waiting.get(key);
    if (waiting) waiting.splice(placeOf(claimant, waiting, compare), 0, claimant);
    else this.#waiting.set(key, [claimant]);
  }

  /** Another Service holds a claim: those that wait on learn of it where they next change. */
  #changed(key: VipId, affected: Set<string>, other: Claimant | undefined): void {
    if (other) affected.add(other.service);
    for (const dependent of this.#dependents.get(key) ?? []) affected.add(dependent.service);
  }
}

/** Most have two fields of a claim: V8 would have those of a spread in an object of their own. */
function claimant(
  { service, created }: Pick<Claimant, "service" | "created">,
  { key, type, unless, isShared, reserved }: Claim,
): Claimant {
  return {
    service,
    created,
    key,
    type,
    ...unless !== undefined && { unless },
    ...isShared && { isShared },
    ...reserved && { reserved },
  };
}

/** Below 0 where the first comes before the second. */
function compare(a: Claimant, b: Claimant): number {
  return rankOf(a) - rankOf(b) || a.created - b.created ||
    (a.service < b.service ? -1 : a.service > b.service ? 1 : 0);
}

function rankOf({ type, reserved }: Claim): number {
  return reserved === undefined ? ORDER.indexOf(type) : ORDER.length;
}

function reasonOf(holder: Claim, loser: Claim): string {
  return holder.type === loser.type
    ? "which is older"
    : `for ${NAMES[holder.type]} comes before ${NAMES[loser.type]}`;
}

function isSame(before: readonly Claimant[], claims: readonly Claim[], created: number): boolean {
  return before.length === claims.length && before.every((claimant, i) => {
    const claim = claims[i];
    return claim !== undefined && claimant.created === created && isEqual(claimant, claim);
  });
}

function isEqual(a: Claim, b: Claim): boolean {
  return a.key === b.key && a.type === b.type && a.unless === b.unless &&
    a.isShared === b.isShared &&
    a.reserved?.holder === b.reserved?.holder && a.reserved?.because === b.reserved?.because;
}

function addTo<K, T>(sets: Map<K, Set<T>>, key: K, member: T): void {
  const set = sets.get(key);
  if (set) set.add(member);
  else sets.set(key, new Set([member]));
}

function deleteFrom<K, T>(sets: Map<K, Set<T>>, key: K, member: T): void {
  const set = sets.get(key);
  set?.delete(member);
  if (set?.size === 0) sets.delete(key);
}
