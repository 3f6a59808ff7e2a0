/**
 * Who holds a virtual IP or node port that several Services ask for: the oldest Service, then the
 * first by name. The others get it when it lets go.
 *
 * @module
 */
/** A Service that asks for something. */
interface Claimant {
  /** `namespace/name`. */
  readonly service: string;
  readonly created: number;
}

/** Two Services that ask for the same address and port, or the same node port. */
export interface Conflict {
  /** What both ask for, as `address . protocol . port` or `node port protocol . port`. */
  readonly claim: string;
  /** `namespace/name` of the Service that has it. */
  readonly holder: string;
  /** `namespace/name` of the Service that does not. */
  readonly loser: string;
}

/** All claims of all Services. */
export class Claims {
  /** By claim, the claimants with the holder first. */
  readonly #claimants = new Map<string, readonly [Claimant, ...Claimant[]]>();
  readonly #claimsByService = new Map<string, readonly string[]>();

  /**
   * Replaces what a Service asks for.
   *
   * @param service `namespace/name`
   * @param options `claims`: all that it asks for, empty when it is gone; `created`: its age
   * @returns other Services that gained or lost something by this
   */
  set(
    service: string,
    options: { readonly claims: readonly string[]; readonly created: number },
  ): ReadonlySet<string> {
    const affected = new Set<string>();
    const claims = new Set(options.claims);
    for (const claim of this.#claimsByService.get(service) ?? []) {
      this.#update(claim, affected, (all) => all.filter((each) => each.service !== service));
    }
    for (const claim of claims) {
      const claimant = { service, created: options.created };
      this.#update(claim, affected, (all) => [...all, claimant].sort(byAge));
    }
    if (claims.size === 0) this.#claimsByService.delete(service);
    else this.#claimsByService.set(service, [...claims]);
    affected.delete(service);
    return affected;
  }

  /** Whether a Service holds what it claimed. */
  holds(service: string, claim: string): boolean {
    return this.#claimants.get(claim)?.[0].service === service;
  }

  /** What a Service asked for and did not get. */
  conflictsOf(service: string): Conflict[] {
    return (this.#claimsByService.get(service) ?? []).flatMap((claim) => {
      const holder = this.#claimants.get(claim)?.[0].service ?? service;
      return holder === service ? [] : [{ claim, holder, loser: service }];
    });
  }

  #update(
    claim: string,
    affected: Set<string>,
    change: (all: readonly Claimant[]) => readonly Claimant[],
  ): void {
    const before = this.#claimants.get(claim) ?? [];
    const [holder, ...others] = change(before);
    if (holder === undefined) this.#claimants.delete(claim);
    else this.#claimants.set(claim, [holder, ...others]);
    if (before.length > 0 || others.length > 0) {
      for (const each of [...before, ...others]) affected.add(each.service);
      if (holder) affected.add(holder.service);
    }
  }
}

function byAge(a: Claimant, b: Claimant): number {
  return a.created - b.created || (a.service < b.service ? -1 : 1);
}
