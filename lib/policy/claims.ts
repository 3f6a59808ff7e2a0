/**
 * Decides which Service holds a virtual IP or node port that several claim. The type of address decides first, because
 * it shows the author: the API server allocates cluster IPs and node ports, controllers write load-balancer IPs, and
 * any user may list external IPs. Then the oldest Service wins, then the first by name. If the holder releases a claim,
 * the next Service gets it.
 */
import { type VipId, vipKeyOf } from "../model/cluster/names.ts";
import type { FrontendType } from "../model/kernel/desired.ts";
import type { Conflict } from "../model/status.ts";
import { sortedIndex } from "../model/values/lists.ts";

/** A holder of an address and port that takes precedence over any Service. */
interface Reservation {
  /** The holder in words: `the API server`. */
  readonly holder: string;
  /** The reason, as the end of a sentence. */
  readonly because: string;
}

/** A TCP port that the daemon needs. A Service cannot have a frontend there. */
export interface OwnPort extends Reservation {
  /** True for the API server's port, false for a port of this process. */
  readonly isApiServer: boolean;
  /** A canonical address; `undefined` for every address of this node. */
  readonly address: string | undefined;
  readonly port: number;
}

export function apiServerPort(address: string, port: number): OwnPort {
  return {
    isApiServer: true,
    holder: "the API server",
    because: "which this node must be able to reach",
    address,
    port,
  };
}

/** A port where a program of the node receives new packets. */
export interface ListeningSocket {
  readonly protocol: "tcp" | "udp";
  /** Canonical; `0.0.0.0` or `::` for every address. */
  readonly address: string;
  readonly port: number;
}

/** A resource that only one Service can hold. */
export interface Claim {
  /** `vipId`, `nodePortClaim` or `balancerClaim`. */
  readonly key: VipId;
  readonly type: FrontendType;
  /** Another claim. If another Service holds it, this claim is lost. */
  readonly unless?: string;
  /** Set if several Services may hold it. It affects only claims that have it as `unless`. */
  readonly isShared?: true;
  /** Set if a Service cannot hold it. */
  readonly reserved?: Reservation;
}

interface Claimant extends Claim {
  readonly service: string;
  readonly created: number;
}

/** The types of claims, the first in rank first. */
const NAMES: Readonly<Record<FrontendType, string>> = {
  clusterIP: "a cluster IP",
  nodePort: "a node port",
  loadBalancerIP: "a load-balancer IP",
  externalIP: "an external IP",
};
const ORDER: readonly string[] = Object.keys(NAMES);

export class Claims {
  readonly #holders = new Map<VipId, Claimant>();
  /** The waiting claimants by claim, the next holder first. */
  readonly #waiting = new Map<VipId, Claimant[]>();
  /** The claims with an `unless`, by that other claim. */
  readonly #dependents = new Map<VipId, Set<Claimant>>();
  readonly #byService = new Map<string, readonly Claimant[]>();

  /** Replaces the claims of a Service. @returns Services that may have gained or lost a claim, itself included */
  set(
    service: string,
    { claims, created }: { readonly claims: readonly Claim[]; readonly created: number },
  ): ReadonlySet<string> {
    const affected = new Set<string>();
    const wanted = new Map<VipId, Claim>();
    for (const claim of claims) if (!wanted.has(claim.key)) wanted.set(claim.key, claim);
    const kept = new Map<VipId, Claimant>();
    for (const claimant of this.#byService.get(service) ?? []) {
      const claim = wanted.get(claimant.key);
      if (claim && claimant.created === created && isEqual(claimant, claim)) {
        kept.set(claim.key, claimant);
      } else this.#remove(claimant, affected);
    }
    const after = [...wanted.values()].map((claim) =>
      kept.get(claim.key) ?? this.#add(makeClaimant({ service, created }, claim), affected)
    );
    if (after.length === 0) this.#byService.delete(service);
    else this.#byService.set(service, after);
    return affected;
  }

  /** Returns the Service that holds a claim; `undefined` without a holder. */
  holderOf(key: VipId): string | undefined {
    const holder = this.#holders.get(key);
    return holder?.reserved === undefined ? holder?.service : undefined;
  }

  conflictsOf(service: string): Conflict[] {
    const conflicts: Conflict[] = [];
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

  /** Returns the claim of another Service that holds the `unless` of a claim. */
  #holderBefore({ unless, service }: Claimant): Claimant | undefined {
    if (unless === undefined) return undefined;
    const holder = this.#holders.get(unless);
    const isOther = holder !== undefined && holder.service !== service;
    return isOther && holder.reserved === undefined ? holder : undefined;
  }

  #add(claimant: Claimant, affected: Set<string>): Claimant {
    const { key, unless } = claimant;
    const holder = this.#holders.get(key);
    affected.add(claimant.service);
    if (unless !== undefined) {
      this.#dependents.getOrInsertComputed(unless, () => new Set()).add(claimant);
    }
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
    affected.add(claimant.service);
    if (unless !== undefined) {
      const dependents = this.#dependents.get(unless);
      dependents?.delete(claimant);
      if (dependents?.size === 0) this.#dependents.delete(unless);
    }
    const waiting = this.#waiting.get(key) ?? [];
    if (this.#holders.get(key) === claimant) {
      const next = waiting.shift();
      if (next) this.#holders.set(key, next);
      else this.#holders.delete(key);
      this.#changed(key, affected, next);
    } else waiting.splice(sortedIndex(claimant, waiting, compare), 1);
    if (waiting.length === 0) this.#waiting.delete(key);
  }

  #wait(key: VipId, claimant: Claimant): void {
    const waiting = this.#waiting.getOrInsert(key, []);
    waiting.splice(sortedIndex(claimant, waiting, compare), 0, claimant);
  }

  /** Collects the Services that a new holder affects. Waiting Services follow at their next change. */
  #changed(key: VipId, affected: Set<string>, other: Claimant | undefined): void {
    if (other) affected.add(other.service);
    for (const dependent of this.#dependents.get(key) ?? []) affected.add(dependent.service);
  }
}

/** Copies each field: V8 stores the object of a spread in a larger form. */
function makeClaimant(
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

/** Compares two claims of one key. */
function isEqual(a: Claim, b: Claim): boolean {
  return a.type === b.type && a.unless === b.unless && a.isShared === b.isShared &&
    a.reserved?.holder === b.reserved?.holder && a.reserved?.because === b.reserved?.because;
}
